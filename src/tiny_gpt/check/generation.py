"""Text from the model: its length, its window, and the distribution of what is drawn, tested as a distribution."""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .probes import Probes
from .subject import Written, crash, outputs, said

DRAWS = 1200
ALPHA = 1e-7  # a right model is accused once in ten million; the draws are the same each time


def written(Model: type) -> bool:
    """Whether generate has been written."""
    method = getattr(Model, "generate", None)
    if method is None:
        return False
    try:
        source = inspect.getsource(method)
    except (OSError, TypeError):
        return True
    return "raise NotImplementedError" not in source


def chi_square_p(counts: Tensor, p: Tensor) -> float:
    """The probability of counts as unlikely as these under p, by the chi-square test; rare cells are pooled."""
    expected = p.double() * counts.sum()
    if counts[expected < 1e-6 * counts.sum().clamp(min=1) * 1e-3].sum() > 0:
        return 0.0
    order = expected.argsort()
    expected, counts = expected[order], counts[order].double()
    groups, total, seen = [], 0.0, 0.0
    for e, c in zip(expected.tolist(), counts.tolist(), strict=True):
        total, seen = total + e, seen + c
        if total >= 8:
            groups.append((total, seen))
            total = seen = 0.0
    if (total or seen) and groups:
        groups[-1] = (groups[-1][0] + total, groups[-1][1] + seen)
    if len(groups) < 2:  # one token has all the probability: nothing to test
        return 1.0
    statistic = sum((c - e) ** 2 / e for e, c in groups)
    df = torch.tensor((len(groups) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(df, torch.tensor(statistic / 2, dtype=torch.float64)))


def probe(probes: Probes) -> None:
    """Check generate, the most obvious properties first."""
    Generation(probes).run()


class Generation:
    state: Tensor  # torch's random state after the last call

    def __init__(self, probes: Probes):
        self.probes, self.subject = probes, probes.subject
        self.V, self.N = (self.subject.sizes[name] for name in ("vocab_size", "block_size"))
        self.later = ""

    def run(self) -> None:
        subject = self.subject
        model = self._moderate()
        prompt = subject.tokens(3, 5, 13)
        first = self._contract(model, prompt.clone())
        if first is None:
            return
        self._mode(prompt)
        self._greedy()
        self._draws(model)
        self._knobs(model, prompt)
        if self.later and not any(f.id.startswith("generate-") for f in self.probes.report.findings):
            self.probes.found("generate-cache", f"the first new token is right, a later one is not: {self.later}")

    def _moderate(self) -> Written:
        """A model whose distributions are neither uniform nor one-hot, whatever precedes its head."""
        embedding, ids = 0.35, self.subject.tokens(3, 8, 16)
        for _ in range(4):
            model = self.subject.amplified(10, embedding=embedding)
            spread = float(outputs(model, ids)[:, -1, : self.V].std(-1).mean())
            if 0.8 < spread < 2.0 or not spread > 0:
                break
            embedding *= (1.3 / spread) ** 0.7
        return model

    # --- What comes back ------------------------------------------------------------------------------------

    def call(self, model: Written, prompt: Tensor, n: int, seed: int = 1, **options: Any) -> Tensor:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(1000 * self.subject.seed + seed)
            out: Tensor = model.generate(prompt.clone(), n, **options)
            self.state = torch.get_rng_state()
            return out

    def _contract(self, model: Written, prompt: Tensor) -> Tensor | None:
        kept = prompt.clone()
        saved = 0

        def pack(tensor: Tensor) -> Tensor:
            nonlocal saved
            saved += 1
            return tensor

        with (
            torch.random.fork_rng(devices=[]),
            torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t),
            torch.enable_grad(),
        ):
            torch.manual_seed(1)
            out = model.generate(prompt, 8)
            enabled = torch.is_grad_enabled()
        if out is None:
            self.probes.report.unwritten.append("generate")
            return None
        if not isinstance(out, Tensor) or out.dim() != 2:
            self.probes.found("generate-length", f"generate returns {type(out).__name__}, not ids of shape (3, 13)")
            return None
        if not enabled:
            self.probes.found("global-state", "after generate, gradients are off for everybody")
        if saved and enabled:
            self.probes.found("generate-grad", f"{saved} tensors are kept for a backward pass while 8 tokens are drawn")
        if not torch.equal(prompt, kept) or prompt.shape != kept.shape:
            self.probes.found("generate-mutates-prompt", "the prompt is another one after generate than before")
            return out if out.shape == (3, 13) else None
        if out.shape != (3, 13):
            said_ = (
                f"5 tokens and max_new_tokens=8 give {out.size(1)} tokens, not 13"
                if len(out) == 3
                else f"shape {tuple(out.shape)}"
            )
            self.probes.found("generate-length", said_)
            return None
        if not torch.equal(out[:, :5], kept):
            self.probes.found("generate-length", "what comes back does not begin with the prompt")
            return None
        if out.is_floating_point() or int(out.max()) >= self.V or int(out.min()) < 0:
            self.probes.found("generate-length", "what comes back are not ids of the vocabulary")
            return None
        return out

    def _mode(self, prompt: Tensor) -> None:
        for training in (True, False):
            model = self.subject.amplified(11).train(training)
            before = [m.training for m in model.modules()]
            self.call(model, prompt, 2)
            if [m.training for m in model.modules()] != before:
                names = ("eval", "train")
                self.probes.found(
                    "generate-mode", f"called in {names[training]} mode, it leaves {names[not training]} mode"
                )

    # --- Which token, when there is only one to choose --------------------------------------------------------

    def _peaked(self) -> Written:
        """A model so confident that sampling from it is deterministic."""
        return self.subject.amplified(12, embedding=20.0, factor=4.5)

    def _step(self, model: Written, text: Tensor) -> tuple[Tensor, float]:
        last = outputs(model, text)[:, -1, : self.V]
        top = last.double().topk(2, dim=-1).values
        return last.argmax(-1), float((top[:, 0] - top[:, 1]).min())

    def _greedy(self) -> None:
        model, N = self._peaked(), self.N
        prompt = self.subject.tokens(3, 7, 14)
        steps = N + 4
        try:
            out = self.call(model, prompt, steps)
        except (Exception, SystemExit) as error:
            self.probes.found(
                "generate-no-crop", f"beyond {N} tokens generate fails: {said(error)}", crash(error, "").where
            )
            return
        if out.shape != (3, 7 + steps):
            id = "generate-no-crop" if out.size(1) <= N + 1 else "generate-length"
            self.probes.found(id, f"{steps} new tokens were asked for and {out.size(1) - 7} came")
            return
        sure = []  # (position, what is most probable there), where the model leaves no doubt
        for t in range(7, 7 + steps):
            want, gap = self._step(model, out[:, max(0, t - N) : t])
            if gap > 12:
                sure.append((t, want))
        wrong = [(t, want) for t, want in sure if not torch.equal(out[:, t], want)]
        if wrong:
            self._explain(model, out, sure, *wrong[0])

    def _explain(self, model: Written, out: Tensor, sure: Sequence[tuple[int, Tensor]], t: int, want: Tensor) -> None:
        """Find the wrong rule that gives every token that was drawn."""
        window = out[:, max(0, t - self.N) : t]
        alone = torch.stack([self._step(model, row[None])[0][0] for row in window])
        if not torch.equal(alone, want):
            return  # the rows of a batch disturb each other in forward already
        seen = f"at step {t - 6} the most probable tokens are {want.tolist()}, drawn were {out[:, t].tolist()}"
        for id, name, rule in self._rules(model):
            if all(torch.equal(rule(out[:, :t]), out[:, t]) for t, _ in sure):
                self.probes.found(id, f"{seen}: those {name}")
                return
        if t > self.N:
            self.probes.found("generate-wrong-window", f"beyond the context, {seen}")
        elif t > 7:
            self.later = seen  # unless the tests of the distribution, which draw one token, find more

    def _rules(self, model: Written) -> Iterator[tuple[str, str, Callable[[Tensor], Tensor]]]:
        """(id, in words, function from the text so far to the next tokens)."""
        N, V = self.N, self.V

        def logits(text: Tensor) -> Tensor:
            return outputs(model, text[:, -N:], text[:, -N:])[..., :V]  # (B, T, V)

        def step(text: Tensor) -> Tensor:
            return self._step(model, text)[0]

        yield "generate-batch", "of text 0, for all", lambda text: step(text[:, -N:])[:1].expand(len(text))
        wrong = "generate-wrong-position"
        yield wrong, "of the last position but one", lambda text: logits(text)[:, -2].argmax(-1)
        yield wrong, "of the first position", lambda text: logits(text)[:, 0].argmax(-1)
        yield wrong, "of the mean over all positions", lambda text: logits(text).mean(1).argmax(-1)
        window = "generate-wrong-window"
        yield window, f"after the first {N} tokens", lambda text: step(text[:, :N])
        yield window, f"after the last {N - 1} tokens", lambda text: step(text[:, -(N - 1) :])
        yield window, f"after the last {N // 2} tokens", lambda text: step(text[:, -(N // 2) :])
        yield window, "after the last token alone", lambda text: step(text[:, -1:])
        yield window, "after all but the last token", lambda text: step(text[:, -N - 1 : -1])

    # --- Which distribution -----------------------------------------------------------------------------------

    def _frequencies(self, model: Written, prompt: Tensor, **options: Any) -> Tensor:
        """How often each token follows, for each prompt: (P, V)."""
        many = prompt.repeat_interleave(DRAWS, 0)  # (P * DRAWS, T)
        out = self.call(model, many, 1, **options)[:, -1]
        counts = torch.zeros(len(prompt), self.V)
        for n in range(len(prompt)):
            counts[n] = torch.bincount(out[n * DRAWS : (n + 1) * DRAWS], minlength=self.V)[: self.V]
        return counts

    def _draws(self, model: Written) -> None:
        prompt = self.subject.tokens(2, 6, 15)
        logits = outputs(model, prompt)[:, -1, : self.V].double()  # (2, V)
        if not logits.isfinite().all():
            return
        for temperature in (1.0, 2.0, 0.5):
            counts = self._frequencies(model, prompt, temperature=temperature)
            state = self.state
            if temperature == 1.0 and torch.equal(counts, self._frequencies(model, prompt, seed=2)):
                sure = bool(((logits / temperature).softmax(-1).amax(-1) > 0.99).all())
                if torch.equal(state, self.state):
                    self.probes.found(
                        "global-state",
                        "something in generate seeds torch: its random state is the same after two seeds",
                    )
                    return
                if sure or (counts > 0).sum(-1).max() == 1:
                    self._name(model, prompt, logits, counts, temperature, [0.0, 0.0])
                    return
                self.probes.found("generate-not-random", f"after two seeds, {2 * DRAWS} draws are the same, one by one")
                return
            right = (logits / temperature).softmax(-1)
            p = [chi_square_p(c, q) for c, q in zip(counts, right, strict=True)]
            if min(p) > ALPHA:
                continue
            self._name(model, prompt, logits, counts, temperature, p)
            return

    def _name(
        self,
        model: Written,
        prompt: Tensor,
        logits: Tensor,
        counts: Tensor,
        temperature: float,
        p: Sequence[float],
    ) -> None:
        def fits(distribution: Tensor) -> bool:
            return all(chi_square_p(c, q) > ALPHA for c, q in zip(counts, distribution, strict=True))

        if (counts > 0).sum(-1).max() == 1:
            chosen = counts.argmax(-1)
            if torch.equal(chosen, logits.argmax(-1)):
                self.probes.found(
                    "generate-not-random", f"{DRAWS} continuations of a prompt all begin with its most probable token"
                )
            elif len(set(chosen.tolist())) == 1:
                self.probes.found("generate-batch", f"{2 * DRAWS} texts of two prompts all get the same token")
            else:
                self.probes.found(
                    "generate-not-random", f"{DRAWS} continuations of a prompt all begin with the same token"
                )
            return
        if p[0] > ALPHA and fits((logits / temperature).softmax(-1)[:1].expand(2, -1)):
            self.probes.found(
                "generate-batch", "the second prompt's tokens are drawn from the first one's distribution"
            )
            return
        law = f"softmax(logits / {temperature})"
        said_ = f"with temperature {temperature} and {DRAWS} draws, the frequencies do not fit {law}"
        others = {
            "logits times the temperature": (logits * temperature).softmax(-1),
            "the logits, whatever the temperature": logits.softmax(-1),
            "probabilities divided by the temperature before another softmax": (
                logits.softmax(-1) / temperature
            ).softmax(-1),
            "the logits divided by the temperature's square": (logits / temperature**2).softmax(-1),
            "the logits divided by the temperature's root": (logits / math.sqrt(temperature)).softmax(-1),
        }
        if temperature != 1.0:
            for name, other in others.items():
                if fits(other):
                    self.probes.found("generate-temperature", f"{said_}; they fit {name}")
                    return
        every = outputs(model, prompt, prompt)[..., : self.V].double()  # (2, T, V)
        if fits((every.mean(1) / temperature).softmax(-1)):
            self.probes.found("generate-wrong-position", "the draws fit the mean of all positions' logits")
            return
        for position in range(every.size(1) - 1):
            if fits((every[:, position] / temperature).softmax(-1)):
                self.probes.found(
                    "generate-wrong-position", f"the draws fit position {position}'s logits, not the last one's"
                )
                return
        if temperature != 1.0:
            self.probes.found("generate-temperature", said_)
        else:
            uniform = fits(torch.full_like(logits, 1 / self.V))
            what = "; each token comes equally often" if uniform else ""
            self.probes.found("generate-not-random", said_ + what)

    def _knobs(self, model: Written, prompt: Tensor) -> None:
        """top_k and temperature at their ends."""
        logits = outputs(model, prompt[:2])[:, -1, : self.V].double()
        if not logits.isfinite().all():
            return
        self._top_k(model, prompt[:2], logits)
        try:
            self.call(model, prompt, 2, top_k=self.V + 10)
        except (Exception, SystemExit) as error:
            self.probes.found(
                "generate-top-k-overflow", f"top_k={self.V + 10} of {self.V}: {said(error)}", crash(error, "").where
            )
        try:
            out = self.call(model, prompt[:2].repeat_interleave(20, 0), 1, temperature=0.0)[:, -1]
        except ValueError as error:
            if "temperature" not in str(error).lower():
                self.probes.found("generate-temperature-zero", f"temperature=0: {said(error)}", crash(error, "").where)
        except (Exception, SystemExit) as error:
            self.probes.found("generate-temperature-zero", f"temperature=0: {said(error)}", crash(error, "").where)
        else:
            want = logits.argmax(-1).repeat_interleave(20)
            right = int((out == want).sum())
            if right < len(want) and not self.probes.has(
                "generate-batch", "generate-wrong-position", "generate-not-random"
            ):
                self.probes.found(
                    "generate-temperature-zero",
                    f"with temperature=0 only {right} of {len(want)} tokens are the most probable",
                )

    def _top_k(self, model: Written, prompt: Tensor, logits: Tensor) -> None:
        if self.probes.has("generate-not-random", "generate-batch", "generate-wrong-position"):
            return
        order = logits.argsort(-1, descending=True)
        for k, temperature in ((1, 1.0), (5, 1.0), (5, 2.0)):
            try:
                counts = self._frequencies(model, prompt, top_k=k, temperature=temperature)
            except (Exception, SystemExit) as error:
                self.probes.found("generate-top-k", f"top_k={k}: {said(error)}", crash(error, "").where)
                return
            kept = (counts > 0).sum(-1)
            best = [set(order[n, :k].tolist()) for n in range(2)]
            drawn = [set(counts[n].nonzero().flatten().tolist()) for n in range(2)]
            outside = sum(len(d - b) for d, b in zip(drawn, best, strict=True))
            if outside:
                self.probes.found(
                    "generate-top-k",
                    f"with top_k={k}, {int(kept.max())} different tokens come, {outside} not among the best {k}",
                )
                return
            limited = torch.full_like(logits, -math.inf).scatter(1, order[:, :k], logits.gather(1, order[:, :k]))
            p = [chi_square_p(c, (row / temperature).softmax(-1)) for c, row in zip(counts, limited, strict=True)]
            if min(p) < ALPHA and not self.probes.has("generate-temperature"):
                few = (
                    f"only {int(kept.min())} different tokens come"
                    if kept.min() < k
                    else "they do not come as often as they should"
                )
                self.probes.found("generate-top-k", f"with top_k={k}, {few}")
                return
