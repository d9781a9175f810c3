"""What the checker can name: for each id its cause in a sentence, the place in the book, and a hint.

A hint leads to the thought that finds the mistake; it never gives the line.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A labelled heading of the book."""

    page: str
    label: str
    heading: str

    @property
    def said(self) -> str:
        chapter = f"chapter {int(self.page[:2])}" if self.page[:2].isdigit() else f"page {self.page}"
        return f"{chapter}, '{self.heading}' ({self.page}.md)"


@dataclass(frozen=True)
class Cause:
    """One kind of mistake."""

    id: str
    cause: str
    section: Section
    hint: str


SECTIONS = {
    section.label: section
    for section in (
        Section("01_text_to_batches", "sec-shift", "Why shifted by one"),
        Section("01_text_to_batches", "sec-objective", "What is minimised"),
        Section("02_scores_and_scaling", "sec-softmax", "Softmax: differences become ratios"),
        Section("02_scores_and_scaling", "sec-variance", "Where the size comes from"),
        Section("02_scores_and_scaling", "sec-wrong-scales", "A wrong scale that nobody notices"),
        Section("03_causal_mask", "sec-mask", "A matrix of zeros and minus infinities"),
        Section("03_causal_mask", "sec-off-by-one", "Off by one, in both directions"),
        Section("03_causal_mask", "sec-how-negative", "How negative is minus infinity?"),
        Section("03_causal_mask", "sec-after-softmax", "Masking after the softmax"),
        Section("03_causal_mask", "sec-mask-shape", "One mask for every head and every length"),
        Section("04_attention_head", "sec-three-roles", "Three roles for one vector"),
        Section("04_attention_head", "sec-four-lines", "Four lines"),
        Section("04_attention_head", "sec-batch-axis", "The batch comes for free"),
        Section("04_attention_head", "sec-buffer", "Why the mask is a buffer"),
        Section("04_attention_head", "sec-attention-dropout", "Dropout on the weights"),
        Section("05_many_heads", "sec-why-many", "One distribution is not enough"),
        Section("05_many_heads", "sec-list-of-heads", "A list of heads"),
        Section("05_many_heads", "sec-output-projection", "What is the last matrix for?"),
        Section("05_many_heads", "sec-reshape", "The step where people fail"),
        Section("05_many_heads", "sec-three-wrong", "Three wrong reshapes, side by side"),
        Section("06_feed_forward", "sec-two-layers", "Wide, bent, narrow"),
        Section("06_feed_forward", "sec-four-c", "Where the parameters are"),
        Section("06_feed_forward", "sec-activations", "A bend without a corner"),
        Section("07_block", "sec-residual", "Add, do not replace"),
        Section("07_block", "sec-stream", "The stream is a sum"),
        Section("07_block", "sec-layer-norm", "LayerNorm, derived"),
        Section("07_block", "sec-write-block", "The block"),
        Section("07_block", "sec-pre-post", "Before the branch or after the sum?"),
        Section("07_block", "sec-lose-residual", "Lose one residual"),
        Section("08_tiny_gpt", "sec-assembly", "The plan"),
        Section("08_tiny_gpt", "sec-embeddings", "What, and where"),
        Section("08_tiny_gpt", "sec-tying", "The last matrix is the first"),
        Section("08_tiny_gpt", "sec-write-model", "Write it"),
        Section("08_tiny_gpt", "sec-initialisation", "How loud to start"),
        Section("08_tiny_gpt", "sec-count", "Count the parameters"),
        Section("08_tiny_gpt", "sec-initial-loss", "Predict the first loss"),
        Section("09_generation", "sec-one-distribution", "One row of logits"),
        Section("09_generation", "sec-temperature", "Temperature"),
        Section("09_generation", "sec-top-k", "Top-k"),
        Section("09_generation", "sec-next-token-probs", "Write it"),
        Section("09_generation", "sec-generation-bugs", "Seven ways to get it wrong"),
        Section("09_generation", "sec-kv-cache", "Nothing twice: the KV cache"),
        Section("09_generation", "sec-window-slides", "When it stops being valid"),
        Section("10_faster", "sec-no-bias", "Without biases"),
        Section("10_faster", "sec-bf16", "Sixteen bits"),
        Section("11_debugging", "sec-invariants", "Properties that every GPT has"),
        Section("11_debugging", "sec-gradient-norm", "Reading a gradient norm"),
        Section("11_debugging", "sec-without-peeking", "Without peeking"),
        Section("11_debugging", "sec-suspicion", "In which order to suspect"),
        Section("drop_in", "sec-drop-in-interface", "What the scripts ask of a model"),
        Section("drop_in", "sec-drop-in-resume", "Resuming"),
    )
}

# id: (cause, section, hint)
_TABLE = {
    # The mask
    "mask-missing": (
        "Attention reads later positions: nothing hides them.",
        "sec-mask",
        "Which cells of the T × T scores may position t read? Where in your code are the others put out of reach?",
    ),
    "mask-excludes-self": (
        "The mask is one diagonal too strict: a position cannot read itself.",
        "sec-off-by-one",
        "What is left for the very first position to read? Write the mask for T = 3 on paper.",
    ),
    "mask-sees-next": (
        "The mask is too lenient: each position also reads the one that it should predict.",
        "sec-off-by-one",
        "Print your mask for T = 4 and point at the cell where position 0 looks at position 1.",
    ),
    "mask-reversed": (
        "The mask is the wrong way round: it hides the past and shows the future.",
        "sec-mask",
        "Rows ask, columns answer. Which triangle is the past? And does True mean 'may' or 'may not' in your call?",
    ),
    "mask-after-softmax": (
        "The mask comes after the softmax, so the weights no longer sum to one.",
        "sec-after-softmax",
        "What did the hidden positions already take part in when you removed them?",
    ),
    "mask-soft": (
        "Later positions are discouraged, not excluded: the masked scores are not negative enough.",
        "sec-how-negative",
        "What is exp of your masked score, compared with exp of an ordinary one, and of an extraordinary one?",
    ),
    "mask-stale": (
        "The mask, or something else, is made for one length and does not follow the input's.",
        "sec-mask-shape",
        "Which T does your mask have when a text is shorter than the context, or when a longer one comes later?",
    ),
    "mask-hides-past": (
        "Some earlier positions are hidden as well as the later ones.",
        "sec-mask",
        "Print your mask for T = 5. Is everything on and below the diagonal open?",
    ),
    # Scores and softmax
    "scale-missing": (
        "The scores are not scaled by the head width.",
        "sec-variance",
        "What variance has the sum of D products? Is there a line in which yours is brought back to 1?",
    ),
    "scale-by-width": (
        "The scores are scaled by the model's width, not by the head's.",
        "sec-wrong-scales",
        "How many products are summed in one score of one head?",
    ),
    "scale-wrong": (
        "The scores are multiplied by another factor than the one that keeps their variance at 1.",
        "sec-variance",
        "Work out the variance of q·k for your D, and then of what you computed. Is it scaled once, the right way up?",
    ),
    "softmax-axis": (
        "The softmax runs along the wrong axis.",
        "sec-softmax",
        "Each query shares out one unit of attention. Among what? Sum your weights along each axis and look.",
    ),
    "softmax-missing": (
        "There is no softmax between the scores and the values.",
        "sec-four-lines",
        "Do the numbers that you mix the values with sum to one, and is none of them negative?",
    ),
    "attention-differs": (
        "What attention computes is not the softmax of scaled, masked scores.",
        "sec-four-lines",
        "Four lines: scores, mask, softmax, values. Compute each by itself for T = 2 and compare with yours.",
    ),
    # Heads
    "heads-split-mixed": (
        "The split into heads mixes positions (or texts) with channels.",
        "sec-reshape",
        "The new shape is right and the numbers are in the wrong places. Which axis is cut, and only then, "
        "which are exchanged?",
    ),
    "heads-merge-mixed": (
        "Putting the heads together again mixes positions with heads.",
        "sec-three-wrong",
        "In which order are the axes when you flatten the last two? Follow one element of head 1, position 0.",
    ),
    "heads-ignored": (
        "The number of heads at work is not the config's.",
        "sec-why-many",
        "How many T × T matrices of weights are computed for one text? Where does your code use n_head?",
    ),
    "heads-share-weights": (
        "Several heads use the same projection.",
        "sec-list-of-heads",
        "If two heads have the same weights, what can the second one tell that the first did not?",
    ),
    "qkv-shared": (
        "Two of queries, keys and values come from the same projection.",
        "sec-three-roles",
        "Three roles, three matrices. Which columns does each of yours use?",
    ),
    "out-projection-missing": (
        "The heads' outputs go into the stream without the output projection.",
        "sec-output-projection",
        "After the heads stand side by side: what lets head 3 write where head 1 writes?",
    ),
    # Positions
    "position-missing": (
        "The model does not know where a token stands.",
        "sec-embeddings",
        "Give it the same token several times. What differs between the positions?",
    ),
    "position-wrong-axis": (
        "The position embedding follows the batch axis, not the time axis.",
        "sec-embeddings",
        "Positions count along which axis of idx? What does broadcasting do with your shape?",
    ),
    "position-constant": (
        "Every position gets the same position embedding.",
        "sec-embeddings",
        "Print the numbers that you look positions up with.",
    ),
    "position-misplaced": (
        "Position embeddings are added in the wrong place or the wrong order.",
        "sec-embeddings",
        "Position t gets row t, once, before the first block. Which row does position 0 get in yours, and where?",
    ),
    # Embedding and head
    "untied": (
        "Embedding and unembedding are two matrices, not one.",
        "sec-tying",
        "Count the parameters. By how much are there too many?",
    ),
    "tied-by-copy": (
        "The unembedding starts as a copy of the embedding and then goes its own way.",
        "sec-tying",
        "Equal numbers or the same tensor? What happens to each at the first update?",
    ),
    "embedding-scaled": (
        "The embeddings are multiplied by a factor on their way in.",
        "sec-embeddings",
        "What enters the first block is a sum of two looked-up rows. What else is in yours?",
    ),
    "head-bias": (
        "The unembedding has a bias.",
        "sec-tying",
        "The last matrix is the token embedding. Does an embedding have a bias?",
    ),
    "logits-scaled": (
        "The logits are multiplied by a factor.",
        "sec-tying",
        "What stands between the last matrix and what you return?",
    ),
    # Initialisation
    "init-default": (
        "The weights keep PyTorch's initial values.",
        "sec-initialisation",
        "Is your initialisation called at all, and does it reach embeddings, linear layers and bare parameters?",
    ),
    "init-wrong-std": (
        "Initial weights have another standard deviation than 0.02.",
        "sec-initialisation",
        "Print the standard deviation of each matrix of a new model. Standard deviation or variance?",
    ),
    "init-bias": (
        "Biases do not start at zero (or the gains of a LayerNorm not at one).",
        "sec-initialisation",
        "What should a new model prefer, before it has read anything?",
    ),
    # Norms
    "norm-post": (
        "The norm stands after the branch, on the stream, not before the branch.",
        "sec-pre-post",
        "Is there a way from the first block to the last that passes no norm?",
    ),
    "norm-missing": (
        "A branch reads the stream without a LayerNorm.",
        "sec-write-block",
        "Which two branches are there, and what stands in front of each?",
    ),
    "norm-on-stream": (
        "The stream itself is normalised, so a branch is added to the normalised copy.",
        "sec-write-block",
        "After your line that normalises, which variable still holds the stream?",
    ),
    "final-norm-missing": (
        "There is no LayerNorm before the unembedding, or its result is not used.",
        "sec-assembly",
        "The stream has grown from block to block. What brings it to size before it is read for the last time?",
    ),
    "norm-axis": (
        "A norm takes its mean and variance over the wrong axis.",
        "sec-layer-norm",
        "Which numbers may a position know when it is normalised? Change another position and see.",
    ),
    "norm-shared": (
        "Two norms are one and the same.",
        "sec-write-block",
        "How many LayerNorms does a model with L blocks have? Count yours.",
    ),
    "norm-rms": (
        "A LayerNorm does not take off the mean.",
        "sec-layer-norm",
        "Two steps: centre, then divide. What is the mean of your norm's output?",
    ),
    "norm-wrong": (
        "A norm leaves out a step of LayerNorm, or does another one.",
        "sec-layer-norm",
        "Compute mean and variance of the norm's output, with gain 1 and shift 0.",
    ),
    # Residuals
    "residual-missing": (
        "A branch replaces the stream: the residual connection is missing.",
        "sec-residual",
        "If the branch gave nothing but zeros, what would be left of the stream?",
    ),
    "residual-doubled": (
        "Something is added to the stream more than once.",
        "sec-lose-residual",
        "If both branches were silent, would a block return exactly its input?",
    ),
    "residual-differs": (
        "The stream after a branch is another sum than stream + branch.",
        "sec-stream",
        "Write down what the stream holds after each line of your block.",
    ),
    "branches-parallel": (
        "Attention and feed-forward network read the same stream, side by side, not one after the other.",
        "sec-write-block",
        "Does the second branch know what the first one found?",
    ),
    "branch-unused": (
        "What a branch computes never reaches the stream.",
        "sec-residual",
        "Zero the branch's last matrix. Does any logit change?",
    ),
    # Feed-forward network
    "activation-missing": (
        "The feed-forward network has no activation between its two linear layers.",
        "sec-two-layers",
        "Two matrices in a row: what single thing are they?",
    ),
    "activation-wrong": (
        "The activation is not GELU, or does not stand between the two linear layers.",
        "sec-activations",
        "Feed your activation -1, 0 and 1. What should come out?",
    ),
    "ffn-width": (
        "The hidden layer of the feed-forward network is not four times the model's width.",
        "sec-four-c",
        "Two thirds of a block's parameters are here. How many does yours have?",
    ),
    # The stack
    "blocks-shared": (
        "The blocks are one and the same block.",
        "sec-count",
        "Count the parameters for n_layer = 1 and 2. How many blocks are constructed?",
    ),
    "blocks-unregistered": (
        "The model does not know its blocks: an optimiser would never see them.",
        "sec-count",
        "What does list(model.parameters()) contain, and what kind of container holds your blocks?",
    ),
    "blocks-skipped": (
        "Not every block's output reaches the next one.",
        "sec-write-model",
        "Follow the variable that carries the stream through your loop.",
    ),
    # Loss
    "loss-shifted-twice": (
        "The targets are shifted once more inside the model.",
        "sec-shift",
        "The batch already holds, at position t, the token that follows. What does your loss compare with what?",
    ),
    "loss-on-inputs": (
        "The loss compares the logits with the input, not with the targets.",
        "sec-shift",
        "Which of your two arguments is the answer? Does the loss change when only the targets do?",
    ),
    "loss-ignore-index": (
        "Targets of -1 are not left out of the loss.",
        "sec-objective",
        "A target of -1 means: do not count this position. Over how many positions is the mean then?",
    ),
    "loss-after-softmax": (
        "The loss gets probabilities where it expects logits.",
        "sec-objective",
        "What does cross-entropy do first with what you give it?",
    ),
    "loss-reduction": (
        "The loss is not the mean over the counted positions.",
        "sec-objective",
        "Give a batch twice. Does the loss stay what it was?",
    ),
    "loss-layout": (
        "The loss pairs logits with the wrong targets: an axis was reshaped where it should have been moved.",
        "sec-objective",
        "Which row of the flattened logits belongs to the flattened targets' row T? Follow one.",
    ),
    "loss-detached": (
        "The loss has no gradient, or none that reaches the weights.",
        "sec-gradient-norm",
        "What stands between the logits and the loss that forgets where the numbers came from?",
    ),
    "loss-wrong": (
        "The loss is not the cross-entropy of the model's own logits.",
        "sec-objective",
        "Compute the loss of one position by hand from the returned logits.",
    ),
    # What forward gives
    "logits-shape": (
        "The logits do not have the shape (B, T, V).",
        "sec-assembly",
        "One distribution for each text and each position. Which axis is lost, and where?",
    ),
    "logits-are-probabilities": (
        "forward returns probabilities, not logits.",
        "sec-objective",
        "Do your logits sum to one? Who applies the softmax, the model or its user?",
    ),
    "returns-wrong": (
        "forward does not return (logits, loss), with None for the loss when there are no targets.",
        "sec-write-model",
        "Two things come back, always two. What is the second when there is nothing to compare with?",
    ),
    # Dropout
    "dropout-in-eval": (
        "Dropout is active in evaluation.",
        "sec-attention-dropout",
        "Call model.eval() and run twice. Which of your dropouts does not know the mode?",
    ),
    "dropout-missing": (
        "The config asks for dropout, and there is none, or not in every place.",
        "sec-attention-dropout",
        "The lesson names the places: after the embeddings, and on each branch. Which of them thin out in training?",
    ),
    "dropout-misplaced": (
        "Dropout stands where it does harm: on the stream, on the logits, or on the scores.",
        "sec-attention-dropout",
        "What should a branch that is dropped leave untouched?",
    ),
    "batch-leak": (
        "The texts of a batch influence each other.",
        "sec-batch-axis",
        "Run one text alone and in a batch. Which step can see across the first axis?",
    ),
    # Contract
    "heads-not-divisible": (
        "A width that the heads cannot share evenly is accepted.",
        "sec-list-of-heads",
        "What are 25 channels for 4 heads? Who should say so, and when?",
    ),
    "context-unchecked": (
        "A text longer than the context is accepted.",
        "sec-write-model",
        "How many position embeddings are there? What happens at the next position?",
    ),
    "bias-ignored": (
        "The config's bias is not followed everywhere.",
        "sec-no-bias",
        "With bias=False, which parameters with one dimension are left?",
    ),
    "device-assumed": (
        "Something is made on a device of its own choosing, not on the input's.",
        "sec-buffer",
        "Which tensors are made in forward, and which live in the module? Do all of them move with it?",
    ),
    "dtype-nan": (
        "In half precision the model gives NaN or cannot run.",
        "sec-bf16",
        "What is the largest number that float16 holds? Do you use one that is larger?",
    ),
    "inplace-breaks-grad": (
        "Something that the backward pass needs was overwritten.",
        "sec-gradient-norm",
        "Which of your lines changes a tensor instead of making a new one?",
    ),
    "state-dict-broken": (
        "Saving and loading does not give the same model back.",
        "sec-drop-in-resume",
        "Is everything that the output depends on in state_dict(), and does load_state_dict put it back?",
    ),
    "gradient-missing": (
        "Some weights never get a gradient, so they never learn.",
        "sec-gradient-norm",
        "Print the name of each parameter whose gradient is None or zero. What do they have in common?",
    ),
    "future-leak": (
        "Logits depend on tokens that come later.",
        "sec-invariants",
        "Which operation of yours can see across the time axis, apart from attention?",
    ),
    "not-finite": (
        "The logits are NaN or infinite.",
        "sec-off-by-one",
        "Which operation makes NaN of ordinary numbers? Find the first tensor that is not finite.",
    ),
    "prefix-differs": (
        "The beginning of a text gives other logits by itself than inside the whole.",
        "sec-mask-shape",
        "Which line knows how long the text is, apart from those that should?",
    ),
    "state-kept": (
        "A forward pass depends on the ones before it.",
        "sec-invariants",
        "What does your model remember between two calls?",
    ),
    "config-wrong": (
        "The config does not have the seven fields of the lesson.",
        "sec-write-model",
        "Which seven numbers define a model? Are they all fields, under the lesson's names?",
    ),
    # Generation
    "generate-no-crop": (
        "generate cannot go beyond the context.",
        "sec-generation-bugs",
        "How long is the text after block_size steps, and how much of it can the model read?",
    ),
    "generate-wrong-window": (
        "Beyond the context, generate reads the wrong part of the text.",
        "sec-window-slides",
        "Which block_size tokens say most about the next one?",
    ),
    "generate-wrong-position": (
        "The next token is drawn from the logits of another position than the last.",
        "sec-one-distribution",
        "Each position predicts the one after it. Whose prediction do you need?",
    ),
    "generate-cache": (
        "Later tokens are not drawn from what forward gives for the whole text so far.",
        "sec-kv-cache",
        "Forget what you keep between the steps and read the whole text again. Which step is the first to differ?",
    ),
    "generate-temperature": (
        "The temperature does not divide the logits.",
        "sec-temperature",
        "Should a temperature of 2 make the text surer or wilder? Try your line with logits 0 and 1.",
    ),
    "generate-temperature-zero": (
        "A temperature of 0 fails, where it should mean: always the most probable token.",
        "sec-temperature",
        "What is the limit of the distribution as the temperature goes to 0?",
    ),
    "generate-top-k": (
        "top_k does not keep exactly the k most probable tokens.",
        "sec-top-k",
        "With k = 1, how many different tokens can come out? What probability have the others, exactly?",
    ),
    "generate-top-k-overflow": (
        "A top_k above the vocabulary's size fails.",
        "sec-top-k",
        "What should 'the 200 best of 65' mean?",
    ),
    "generate-not-random": (
        "generate does not draw from the distribution.",
        "sec-one-distribution",
        "Ask for many continuations of the same prompt. How often should each token come?",
    ),
    "generate-batch": (
        "Not every text of a batch is continued by its own distribution.",
        "sec-next-token-probs",
        "Two different prompts in one batch: which row's distribution does the second one use?",
    ),
    "generate-length": (
        "generate does not return the prompt followed by max_new_tokens new tokens.",
        "sec-generation-bugs",
        "Count: T tokens go in. How many come out, and are the first T the prompt?",
    ),
    "generate-mutates-prompt": (
        "generate changes the tensor that it was given.",
        "sec-generation-bugs",
        "Who else may hold that tensor?",
    ),
    "generate-mode": (
        "generate leaves the model in another mode, or samples with dropout on.",
        "sec-generation-bugs",
        "In which mode should the model be while it writes, and in which afterwards?",
    ),
    "generate-grad": (
        "generate keeps the graph for a backward pass that never comes.",
        "sec-generation-bugs",
        "Does anybody want the gradient of a sample?",
    ),
    # Optimiser
    "decay-on-norms": (
        "Weight decay pulls biases and norms towards zero.",
        "sec-drop-in-interface",
        "Which parameters have one dimension, and what would a smaller gain mean?",
    ),
    "decay-missing": (
        "Weight decay does not act on the matrices.",
        "sec-drop-in-interface",
        "Look at optimizer.param_groups: which tensors are in the group that decays?",
    ),
    "parameters-missing": (
        "The optimiser does not get every parameter exactly once.",
        "sec-drop-in-interface",
        "Compare the tensors in the optimiser's groups with model.parameters(). The tied one counts once.",
    ),
    "optimizer-wrong": (
        "configure_optimizers does not return AdamW with the learning rate and betas it was given.",
        "sec-drop-in-interface",
        "Four arguments come in. Where does each go?",
    ),
    # Around the model
    "global-state": (
        "The code changes a setting of PyTorch that others rely on.",
        "sec-invariants",
        "Which of your lines speaks to torch itself and not to your model?",
    ),
    "crashes": (
        "The code stops with an error.",
        "sec-without-peeking",
        "Read the last line first, then the line of your file. What shape did you expect there?",
    ),
    "does-not-end": (
        "The code does not come to an end.",
        "sec-without-peeking",
        "Which condition ends your loop, and what makes it come true?",
    ),
    "prints-too-much": (
        "The code prints so much that nothing else can be read.",
        "sec-without-peeking",
        "Print once, outside the loop, or raise an error.",
    ),
    "drop-in": (
        "A call that nanoGPT's scripts make does not work.",
        "sec-drop-in-interface",
        "The table on that page lists each call and what it must do.",
    ),
    "output-wrong": (
        "The result has the wrong shape or type.",
        "sec-four-lines",
        "Write the shape of each line on paper, and then print it.",
    ),
}

CAUSES = {id: Cause(id, cause, SECTIONS[section], hint) for id, (cause, section, hint) in _TABLE.items()}


def explain(id: str) -> str:
    """What an id of a finding means, where to read, and what to think about. ValueError if there is no such id."""
    if id not in CAUSES:
        words = set(id.split("-"))
        near = sorted(CAUSES, key=lambda known: -len(words & set(known.split("-"))))[:3]
        raise ValueError(f"there is no finding {id!r}; near it: {', '.join(near)}. All: {', '.join(CAUSES)}")
    about = CAUSES[id]
    return f"{id}\n{about.cause}\nRead: {about.section.said}\nThink: {about.hint}"
