"""What the arguments of each part stand for, in the order of the reference, with the other names that they go by."""

from __future__ import annotations

LOGITS = ("x", "l", "z", "score", "scores", "logit", "input", "arr", "probs", "probabilities", "p")
IDS = ("tokens", "history", "inputids", "generated", "prev", "context", "tokenids", "sequence", "previous", "seen")
ROLES: dict[str, dict[str, tuple[str, ...]]] = {
    "clip_gradients": {
        "grads": ("g", "grad", "gradients", "gradient", "parameters", "params", "dw", "arrays", "tensors"),
        "max_norm": ("clip", "clipnorm", "limit", "threshold", "c", "maxgradnorm", "maxn", "norm", "clipvalue"),
    },
    "learning_rate": {
        "step": ("t", "it", "i", "iteration", "currentstep", "globalstep", "n", "s", "stepnum", "iter"),
        "peak": ("lr", "maxlr", "baselr", "learningrate", "lrmax", "initiallr", "peaklr", "etamax", "max"),
        "warmup_steps": ("warmup", "warmupiters", "numwarmupsteps", "warmupiterations", "nwarmup", "w"),
        "total_steps": (
            *("total", "maxsteps", "maxiters", "numtrainingsteps", "lrdecayiters", "decaysteps", "nsteps", "steps"),
            *("numsteps", "tmax", "totaliters"),
        ),
        "floor": ("minlr", "lrmin", "etamin", "finallr", "endlr", "min"),
    },
    "penalise": {"logits": LOGITS, "ids": IDS, "gamma": ("penalty", "repetitionpenalty", "alpha", "theta"), "once": ()},
    "block_ngrams": {"logits": LOGITS, "ids": IDS, "n": ("ngram", "size", "ngramsize", "norepeatngramsize")},
    "ban": {"logits": LOGITS, "banned": ("badwords", "ids", "tokens", "bannedids", "forbidden", "badids")},
    "apply_temperature": {"logits": LOGITS, "temperature": ("temp", "t", "tau")},
    "top_k": {"logits": LOGITS, "k": ("topk", "n")},
    "top_p": {"logits": LOGITS, "p": ("topp", "threshold", "nucleus", "cutoff")},
    "min_p": {"logits": LOGITS, "share": ("minp", "p", "threshold")},
    "probabilities": {"logits": LOGITS, "ids": IDS, "config": ("sampling", "settings", "cfg")},
    "choose": {
        "probabilities": ("probs", "p", "prob", "distribution", "weights"),
        "uniform": ("u", "r", "number", "random", "rng", "generator"),
    },
    "inputs_and_targets": {"batch": ("x", "ids", "tokens", "rows", "data", "sequence", "sequences")},
    "batches": {
        "dataset": ("data", "ds"),
        "batch_size": ("size", "batchsize", "b", "bs"),
        "rng": ("generator", "random"),
        "drop_last": (),
        "by_length": (),
    },
    "read_texts": {"path": ("file", "filename", "fname", "filepath")},
    "split_texts": {
        "texts": ("stories", "data", "lines"),
        "held_out": ("fraction", "share", "testsize", "ratio", "valfraction", "test"),
        "rng": ("generator", "random"),
    },
    "generate_ids": {
        "step": ("model", "forward", "fn", "f"),
        "prompt": ("ids", "tokens", "start", "context"),
        "sampling": ("config", "settings"),
        "stop": ("stopids", "eos", "stops"),
        "pad": ("padid",),
        "rng_seed": ("seed",),
        "samples": ("n", "numsamples"),
        "context_window": ("window", "contextlength", "blocksize"),
    },
    "generate_tokens": {
        "step": ("model", "forward", "fn", "f"),
        "tokenizer": ("tok",),
        "prompt": ("text", "start", "context"),
        "sampling": ("config", "settings"),
        "seed": ("rngseed",),
        "samples": ("n", "numsamples"),
        "context_window": ("window", "contextlength", "blocksize"),
    },
    "gpt_step": {
        "params": ("p", "weights", "parameters", "model"),
        "ids": ("tokens", "x", "idx"),
        "config": ("cfg",),
        "past": ("cache", "kvcache", "state", "pastkeyvalues"),
    },
    "evaluate": {"learner": ("model",), "dataset": ("data",), "batch_size": ("size", "batchsize")},
    "perplexity": {"loss": ("nll", "x", "l", "meanloss")},
    "train_model": {
        "learner": ("model",),
        "dataset": ("data",),
        "settings": ("config",),
        "held_out": ("val", "validation"),
        "step": ("start",),
        "stop": ("end",),
        "watch": ("log",),
        "save": ("checkpoint",),
    },
}
ROLES["generative_rnn_step"] = ROLES["gpt_step"] | {"past": ("state", "h0", "h", "cache", "hidden")}

REQUIRED: dict[str, tuple[str, ...]] = {
    "clip_gradients": ("grads", "max_norm"),
    "learning_rate": ("step", "peak"),
    "penalise": ("logits", "ids", "gamma"),
    "block_ngrams": ("logits", "ids", "n"),
    "ban": ("logits", "banned"),
    "apply_temperature": ("logits", "temperature"),
    "top_k": ("logits", "k"),
    "top_p": ("logits", "p"),
    "min_p": ("logits", "share"),
    "probabilities": ("logits",),
    "choose": ("probabilities", "uniform"),
    "inputs_and_targets": ("batch",),
    "batches": ("dataset", "batch_size", "rng"),
    "read_texts": ("path",),
    "split_texts": ("texts", "held_out", "rng"),
    "generate_ids": ("step", "prompt", "sampling", "stop", "pad", "rng_seed", "context_window"),
    "generate_tokens": ("step", "tokenizer", "prompt", "sampling", "context_window"),
    "gpt_step": ("params", "ids", "config", "past"),
    "generative_rnn_step": ("params", "ids", "config", "past"),
    "evaluate": ("learner", "dataset", "batch_size"),
    "perplexity": ("loss",),
    "train_model": ("learner", "dataset", "settings"),
}
FILTERS = ("penalise", "block_ngrams", "ban", "apply_temperature", "top_k", "top_p", "min_p")
FIELDS = {
    "temperature": ("temp", "t", "tau"),
    "top_k": ("k",),
    "top_p": ("p", "nucleus"),
    "min_p": (),
    "repetition_penalty": ("penalty", "gamma"),
    "no_repeat_ngram": ("ngram", "norepeatngramsize"),
    "banned": ("bannedids", "badids"),
}
