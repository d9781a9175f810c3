"""sampling.py: the record says what the draw was made from."""

import math

import pytest
import torch

from tiny_gpt.data import CharTokenizer
from tiny_gpt.model import GPTConfig, TinyGPT
from tiny_gpt.sampling import steps, stream_text

P = [0.5, 0.25, 0.125, 0.125]


class Fixed(TinyGPT):
    """A model with known logits: whatever was read, the next token has the probabilities P (up to a shift)."""

    def __init__(self):
        super().__init__(GPTConfig(vocab_size=4, block_size=8, n_layer=1, n_head=1, n_embd=4))

    def _logits(self, idx, caches=None):
        return (torch.tensor(P).log() + 3.0).expand(*idx.shape, 4)


class Counting(Fixed):
    """After token i comes i + 1 for certain (after 3 comes 0)."""

    def _logits(self, idx, caches=None):
        return torch.full((*idx.shape, 4), -math.inf).scatter(-1, ((idx + 1) % 4)[..., None], 0.0)


def test_the_record_holds_the_exact_probabilities(generator):
    for step in steps(Fixed(), torch.tensor([0]), 20, generator=generator, alternatives=9):
        assert step.prob == pytest.approx(P[step.token], abs=1e-6)
        assert step.surprise_nats == pytest.approx(-math.log(P[step.token]), abs=1e-5)
        assert step.entropy_bits == pytest.approx(1.75, abs=1e-5)  # 1/2·1 + 1/4·2 + 2·1/8·3
        assert step.entropy_nats == pytest.approx(1.75 * math.log(2), abs=1e-5)
        assert [q for _, q in step.top] == pytest.approx(P, abs=1e-6)
        assert [i for i, _ in step.top][:2] == [0, 1]


@pytest.mark.parametrize(
    ("temperature", "top_k", "expected"),
    [(0.5, None, [16 / 22, 4 / 22, 1 / 22, 1 / 22]),  # at half the temperature probabilities are squared
     (1.0, 2, [2 / 3, 1 / 3, 0, 0]), (1.0, 99, P)],
)  # fmt: skip
def test_draws_follow_the_recorded_distribution(generator, temperature, top_k, expected):
    n = 4000
    drawn = list(steps(Fixed(), torch.tensor([1]), n, temperature, top_k, generator=generator, alternatives=4))
    possible = [p for p in expected if p]
    assert [q for _, q in drawn[0].top] == pytest.approx(possible, abs=1e-6)
    counts = torch.bincount(torch.tensor([step.token for step in drawn]), minlength=4)
    assert counts[len(possible) :].sum() == 0
    chi2 = sum((float(c) - n * p) ** 2 / (n * p) for c, p in zip(counts, expected, strict=True) if p)
    assert chi2 < {2: 10.8, 4: 16.3}[len(possible)]  # exceeded by chance once in 1000


def test_certainty_has_no_entropy_and_no_alternatives():
    drawn = list(steps(Counting(), torch.tensor([2]), 10, temperature=0))
    assert [step.token for step in drawn] == [3, 0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert all((step.prob, step.entropy_nats, len(step.top)) == (1.0, 0.0, 1) for step in drawn)
    assert str(drawn[0].entropy_nats) == "0.0"


def test_steps_are_the_tokens_of_generate_and_the_recorded_probability_is_the_models(make, generator):
    model = make(GPTConfig(vocab_size=7, block_size=6, n_layer=2, n_head=2, n_embd=16))
    prompt = torch.tensor([3, 1, 4])
    state = generator.get_state()
    drawn = list(steps(model, prompt, 12, 0.9, 5, generator=generator))
    generator.set_state(state)
    whole = model.generate(prompt[None], 12, 0.9, 5, generator=generator)[0]
    assert [step.token for step in drawn] == whole[3:].tolist()
    with torch.no_grad():  # the first step again, by the definition
        logits = model.eval()(prompt[None])[0][0, -1] / 0.9
    kept = logits.topk(5)
    probs = dict(zip(kept.indices.tolist(), kept.values.softmax(0).tolist(), strict=True))
    assert drawn[0].prob == pytest.approx(probs[drawn[0].token], abs=1e-6)
    assert dict(drawn[0].top) == pytest.approx(probs, abs=1e-6)


def test_text_comes_a_character_at_a_time(generator):
    tokenizer = CharTokenizer("abcd")
    stream = stream_text(Counting(), tokenizer, "ab", 10**9, generator=generator)  # far more than anybody waits for
    assert [next(stream) for _ in range(9)] == list("cdabcdabc")


def test_prompts_that_cannot_be_continued(generator):
    tokenizer = CharTokenizer("abcd")
    with pytest.raises(ValueError, match="'!'"):
        next(stream_text(Fixed(), tokenizer, "ab!", 3, generator=generator))
    with pytest.raises(ValueError, match="prompt is empty"):
        next(stream_text(Fixed(), tokenizer, "", 3, generator=generator))
    with pytest.raises(ValueError, match="alternatives must be 0 or more"):
        next(steps(Fixed(), torch.tensor([0]), 3, alternatives=-1))
    with pytest.raises(ValueError, match="temperature must be 0 or more"):
        next(steps(Fixed(), torch.tensor([0]), 3, temperature=-1.0))
