"""Wrong parts as people write them, each with the known mistake that it is (in tests/test_outside_parts.py)."""

import math

import numpy as np


def adamw_like(**wrong):
    """adamw(p, g, m, v, t, lr, b1, b2, eps, wd) -> p, m, v with one line replaced."""

    def adamw(p, g, m, v, t, lr, b1, b2, eps, wd):
        g = wrong.get("g", lambda g, p, wd: g)(g, p, wd)
        m = wrong.get("m", lambda m, g, b1: b1 * m + (1 - b1) * g)(m, g, b1)
        v = wrong.get("v", lambda v, g, b2: b2 * v + (1 - b2) * g * g)(v, g, b2)
        p = p - lr * wrong.get("decay", lambda p, wd, lr: wd * p)(p, wd, lr)
        move = wrong.get("move", lambda m, v, c1, c2, eps: m / c1 / (np.sqrt(v / c2) + eps))
        return p - lr * move(m, v, 1 - b1**t, 1 - b2**t, eps), m, v

    return adamw


epsilon_inside = adamw_like(move=lambda m, v, c1, c2, eps: m / c1 / np.sqrt(v / c2 + eps))
epsilon_first = adamw_like(move=lambda m, v, c1, c2, eps: m / c1 / ((np.sqrt(v) + eps) / np.sqrt(c2)))
not_corrected = adamw_like(move=lambda m, v, c1, c2, eps: m / (np.sqrt(v) + eps))
times_correction = adamw_like(move=lambda m, v, c1, c2, eps: m * c1 / (np.sqrt(v / c2) + eps))
v_not_corrected = adamw_like(move=lambda m, v, c1, c2, eps: m / c1 / (np.sqrt(v) + eps))
coupled = adamw_like(g=lambda g, p, wd: g + wd * p, decay=lambda p, wd, lr: 0.0)
decay_without_rate = adamw_like(decay=lambda p, wd, lr: wd * p / lr)
absolute = adamw_like(v=lambda v, g, b2: b2 * v + (1 - b2) * np.abs(g))
m_not_weighted = adamw_like(m=lambda m, g, b1: b1 * m + g)
no_root = adamw_like(move=lambda m, v, c1, c2, eps: m / c1 / (v / c2 + eps))  # in no library


def decays_after(params, grads, state, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
    t = state["t"] = state.get("t", 0) + 1
    for name, p in params.items():
        g = grads[name]
        m = state["m" + name] = betas[0] * state.get("m" + name, 0.0) + (1 - betas[0]) * g
        v = state["v" + name] = betas[1] * state.get("v" + name, 0.0) + (1 - betas[1]) * g * g
        p -= lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        p *= 1 - lr * weight_decay
    return params


def counts_each_tensor(params, grads, state, lr, betas, eps, weight_decay):
    for name, p in params.items():
        t = state["t"] = state.get("t", 0) + 1
        g = grads[name]
        m = state["m" + name] = betas[0] * state.get("m" + name, 0.0) + (1 - betas[0]) * g
        v = state["v" + name] = betas[1] * state.get("v" + name, 0.0) + (1 - betas[1]) * g * g
        p *= 1 - lr * weight_decay
        p -= lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


class SharedMoments:
    """The moments belong to the class: two models disturb each other."""

    m, v = {}, {}

    def __init__(self, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.lr, self.betas, self.eps, self.weight_decay, self.t = lr, betas, eps, weight_decay, 0

    def step(self, params, grads):
        self.t += 1
        if self.t == 1 and not self.m.keys() >= params.keys():
            self.m.update({name: np.zeros_like(p) for name, p in params.items()})
            self.v.update({name: np.zeros_like(p) for name, p in params.items()})
        for name, p in params.items():
            g = grads[name]
            self.m[name] = self.betas[0] * self.m[name] + (1 - self.betas[0]) * g
            self.v[name] = self.betas[1] * self.v[name] + (1 - self.betas[1]) * g * g
            p *= 1 - self.lr * self.weight_decay
            m_hat, v_hat = self.m[name] / (1 - self.betas[0] ** self.t), self.v[name] / (1 - self.betas[1] ** self.t)
            p -= self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


class AdamInsteadOfAdamW:
    """torch.optim.Adam's decay, with step() over objects."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        self.params, self.lr, self.betas, self.eps, self.wd, self.t = list(params), lr, betas, eps, weight_decay, 0
        self.m, self.v = [0.0 for _ in self.params], [0.0 for _ in self.params]

    def step(self):
        self.t += 1
        for i, p in enumerate(self.params):
            g = p.grad + self.wd * p.data
            self.m[i] = self.betas[0] * self.m[i] + (1 - self.betas[0]) * g
            self.v[i] = self.betas[1] * self.v[i] + (1 - self.betas[1]) * g * g
            m_hat, v_hat = self.m[i] / (1 - self.betas[0] ** self.t), self.v[i] / (1 - self.betas[1] ** self.t)
            p.data -= self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


def clip_each(grads, max_norm):
    clipped = []
    for g in grads:
        norm = np.linalg.norm(g)
        clipped.append(g * min(1.0, max_norm / (norm + 1e-6)))
    return clipped


def clip_values(grads, clip):
    return {name: np.clip(g, -clip, clip) for name, g in grads.items()}


def clip_always(grads, max_norm):
    norm = math.sqrt(sum(float((g.astype(float) ** 2).sum()) for g in grads.values()))
    return {name: np.asarray(g * (max_norm / (norm + 1e-6))) for name, g in grads.items()}, norm


def rate_whole_cosine(step, peak, warmup_steps=0, total_steps=100, floor=0.0):
    top = max(warmup_steps - 1, 0)
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    x = min(2.0 * (step - top) / max(total_steps - 1 - top, 1), 1.0)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * x))


def multiplied_temperature(logits, temp):
    return logits * temp if temp else np.where(np.arange(logits.shape[-1]) == logits.argmax(), 0.0, -np.inf)


def top_k_one_more(logits, k):
    order = np.argsort(-logits, axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1)
    return np.where(rank <= k, logits, -np.inf)


def top_k_zero(logits, k):
    rank = np.argsort(np.argsort(-logits, -1, kind="stable"), -1)
    return np.where(rank < k, logits, 0.0)


def top_p_drops_crossing(logits, p):
    X = np.asarray(logits, float)
    P = np.exp(X - X.max(-1, keepdims=True))
    P = P / P.sum(-1, keepdims=True)
    order = np.argsort(-X, -1, kind="stable")
    sums = np.cumsum(np.take_along_axis(P, order, -1), -1)
    keep_sorted = sums <= p
    keep_sorted[..., 0] = True
    keep = np.zeros(X.shape, bool)
    np.put_along_axis(keep, order, keep_sorted, -1)
    return X if p == 1 else np.where(keep, X, -np.inf)


def penalty_divides(scores, generated, penalty):
    counts = np.bincount(np.asarray(generated, int), minlength=scores.size)
    return scores / penalty**counts


def min_p_absolute(logits, min_p):
    P = np.exp(logits - logits.max(-1, keepdims=True))
    P = P / P.sum(-1, keepdims=True)
    return np.where(min_p <= P, logits, -np.inf)


def argmax_choice(probs, u):
    return int(np.argmax(probs))


def shifted_twice(tokens):
    return tokens[:, :-2].copy(), tokens[:, 2:].copy()


def ppl_base_2(loss):
    return 2.0**loss if loss < 1000 else math.inf


def save_half(path, params, state, step):
    arrays = {f"params/{n}": np.asarray(p, np.float32) for n, p in params.items()}
    for moment in ("exp_avg", "exp_avg_sq"):
        arrays |= {f"{moment}/{n}": np.asarray(x, np.float32) for n, x in state[moment].items()}
    np.savez(path, step=step, state_step=state["step"], **arrays)


def load_half(path):
    with np.load(path) as file:
        state = {"step": int(file["state_step"])}
        for moment in ("exp_avg", "exp_avg_sq"):
            state[moment] = {n[len(moment) + 1 :]: file[n] for n in file.files if n.startswith(moment + "/")}
        return {n[7:]: file[n] for n in file.files if n.startswith("params/")}, state, int(file["step"])


def save_transposed(path, params):
    np.savez(path, **{name: p.T if p.ndim == 2 else p for name, p in params.items()})


def load_transposed(path):
    """Fits a matrix by its shape: a square one stays transposed."""
    with np.load(path) as file:
        found = dict(file.items())
    return {name: x.T.copy() if x.ndim == 2 and x.shape[0] != x.shape[1] else x for name, x in found.items()}


def save_moments(path, params, opt_state):
    np.savez(path, **{f"p.{n}": p for n, p in params.items()}, **{f"m.{n}": x for n, x in opt_state["exp_avg"].items()},
             **{f"v.{n}": x for n, x in opt_state["exp_avg_sq"].items()}, t=opt_state["step"])  # fmt: skip


def load_moments(path):
    with np.load(path) as file:
        params, m, v = ({n[2:]: file[n] for n in file.files if n.startswith(k)} for k in ("p.", "m.", "v."))
        return {"params": params, "opt_state": {"step": int(file["t"]), "exp_avg": v, "exp_avg_sq": m}}


class ShiftsIds:
    """The special tokens stand before the vocabulary."""

    def __init__(self, vocab):
        self.vocabulary = ["<BOS>", "<EOS>", "<UNK>", "<PAD>", *vocab]
        self.token_to_id = {token: i for i, token in enumerate(self.vocabulary)}
        self.bos_id, self.eos_id, self.unk_id, self.pad_id = range(4)

    def encode(self, text):
        import re

        return [self.token_to_id.get(token, 2) for token in re.findall(r"\d|[^\w\s]|\w+|\s", text)]

    def decode(self, ids):
        return "".join(self.vocabulary[i] for i in ids)
