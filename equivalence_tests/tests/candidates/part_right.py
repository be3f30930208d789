"""Right parts as people write them: other names, other orders, in place or returned, functions and classes."""

import json
import math

import numpy as np

# AdamW


def adamw_one(p, g, m, v, t, lr, b1, b2, eps, wd):
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    m_hat = m / (1 - b1**t)
    v_hat = v / (1 - b2**t)
    return p - lr * (m_hat / (np.sqrt(v_hat) + eps) + wd * p), m, v


def adamw_from_0(w, dw, m, v, i, learning_rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01):
    t = i + 1
    m[...] = beta1 * m + (1 - beta1) * dw
    v[...] = beta2 * v + (1 - beta2) * dw**2
    rate = learning_rate / (1 - beta1**t)
    w *= 1 - learning_rate * weight_decay
    w -= rate * m / (np.sqrt(v) / math.sqrt(1 - beta2**t) + epsilon)


def adamw_dicts(params, grads, state, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
    t = state["t"] = state.get("t", 0) + 1
    new = {}
    for name, p in params.items():
        m, v = state.get(name, (np.zeros_like(p), np.zeros_like(p)))
        g = grads[name]
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
        state[name] = (m, v)
        step = (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        new[name] = (1 - lr * weight_decay) * p - lr * step
    return new, state


def adamw_lists(parameters, gradients, memory, lr, beta1, beta2, eps, wd):
    if memory is None:
        memory = {"m": [np.zeros_like(p) for p in parameters], "v": [np.zeros_like(p) for p in parameters], "step": 0}
    memory["step"] += 1
    c1, c2 = 1 - beta1 ** memory["step"], 1 - beta2 ** memory["step"]
    for p, g, m, v in zip(parameters, gradients, memory["m"], memory["v"], strict=True):
        m *= beta1
        m += (1 - beta1) * g
        v *= beta2
        v += (1 - beta2) * np.square(g)
        p -= lr * wd * p
        p -= lr * (m / c1) / (np.sqrt(v / c2) + eps)
    return memory


def adamw_config(w, dw, config=None):
    """In the style of a well-known course, with a decay."""
    if config is None:
        config = {}
    config.setdefault("learning_rate", 1e-3)
    config.setdefault("beta1", 0.9)
    config.setdefault("beta2", 0.999)
    config.setdefault("epsilon", 1e-8)
    config.setdefault("weight_decay", 1e-2)
    config.setdefault("m", np.zeros_like(w))
    config.setdefault("v", np.zeros_like(w))
    config.setdefault("t", 0)
    config["t"] += 1
    config["m"] = config["beta1"] * config["m"] + (1 - config["beta1"]) * dw
    config["v"] = config["beta2"] * config["v"] + (1 - config["beta2"]) * dw * dw
    mt = config["m"] / (1 - config["beta1"] ** config["t"])
    vt = config["v"] / (1 - config["beta2"] ** config["t"])
    next_w = w - config["learning_rate"] * (mt / (np.sqrt(vt) + config["epsilon"]) + config["weight_decay"] * w)
    return next_w, config


def init_adamw_state(params):
    return {"count": 0, "mu": {k: 0.0 * p for k, p in params.items()}, "nu": {k: 0.0 * p for k, p in params.items()}}


def adamw_begun(params, grads, opt_state, lr, betas, eps, weight_decay):
    count = opt_state["count"] + 1
    mu = {k: betas[0] * opt_state["mu"][k] + (1 - betas[0]) * g for k, g in grads.items()}
    nu = {k: betas[1] * opt_state["nu"][k] + (1 - betas[1]) * g**2 for k, g in grads.items()}
    new = {
        k: p
        - lr * (mu[k] / (1 - betas[0] ** count) / (np.sqrt(nu[k] / (1 - betas[1] ** count)) + eps) + weight_decay * p)
        for k, p in params.items()
    }
    return new, {"count": count, "mu": mu, "nu": nu}


class AdamWTorch:
    """torch.optim's way: parameters with data and grad, and step()."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        self.params = list(params)
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.m = [np.zeros_like(p.data) for p in self.params]
        self.v = [np.zeros_like(p.data) for p in self.params]
        self.t = 0

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for i, p in enumerate(self.params):
            g = p.grad
            self.m[i] = b1 * self.m[i] + (1 - b1) * g
            self.v[i] = b2 * self.v[i] + (1 - b2) * g * g
            m_hat = self.m[i] / (1 - b1**self.t)
            v_hat = self.v[i] / (1 - b2**self.t)
            p.data = p.data - self.lr * self.weight_decay * p.data - self.lr * m_hat / (np.sqrt(v_hat) + self.eps)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


class AdamWByName:
    def __init__(self, learning_rate=1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-8, weight_decay=0.01):
        self.learning_rate, self.b1, self.b2 = learning_rate, beta_1, beta_2
        self.epsilon, self.weight_decay, self.iterations = epsilon, weight_decay, 0
        self.m, self.v = {}, {}

    def update(self, params, grads):
        self.iterations += 1
        for key in params:
            if key not in self.m:
                self.m[key] = np.zeros_like(params[key])
                self.v[key] = np.zeros_like(params[key])
            self.m[key] += (1 - self.b1) * (grads[key] - self.m[key])
            self.v[key] += (1 - self.b2) * (grads[key] ** 2 - self.v[key])
            rate = self.learning_rate * np.sqrt(1 - self.b2**self.iterations) / (1 - self.b1**self.iterations)
            scaled = self.epsilon * np.sqrt(1 - self.b2**self.iterations)
            params[key] *= 1 - self.learning_rate * self.weight_decay
            params[key] -= rate * self.m[key] / (np.sqrt(self.v[key]) + scaled)


class AdamWGiven:
    """Parameters at the start, gradients at each step, in lists."""

    def __init__(self, params, lr, betas, eps, weight_decay):
        self.params, self.lr, self.betas, self.eps, self.wd = params, lr, betas, eps, weight_decay
        self.state = [[np.zeros_like(p), np.zeros_like(p)] for p in params]
        self.t = 0

    def step(self, grads):
        self.t += 1
        for p, g, s in zip(self.params, grads, self.state, strict=True):
            s[0] = self.betas[0] * s[0] + (1 - self.betas[0]) * g
            s[1] = self.betas[1] * s[1] + (1 - self.betas[1]) * g * g
            p *= 1 - self.lr * self.wd
            m_hat, v_hat = s[0] / (1 - self.betas[0] ** self.t), s[1] / (1 - self.betas[1] ** self.t)
            p -= self.lr * m_hat / (np.sqrt(v_hat) + self.eps)


# Clipping


def clip_grad_norm(grads, max_norm):
    """In place, over a list, as torch has it; the norm comes back."""
    total = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in grads))
    factor = min(1.0, max_norm / (total + 1e-6))
    for g in grads:
        g *= factor
    return total


def clip_by_global_norm(gradients, clip_norm):
    norm = np.sqrt(sum(np.sum(np.square(g)) for g in gradients.values()))
    scale = max_norm / (norm + 1e-6) if (max_norm := clip_norm) < norm else 1.0
    return {name: g * g.dtype.type(scale) for name, g in gradients.items()}, norm


def clip_one(g, threshold):
    norm = np.linalg.norm(g)
    coefficient = threshold / (norm + 1e-6)
    return g * coefficient if coefficient < 1 else g


# Schedules


def get_lr(it, max_lr, warmup_iters, max_iters, min_lr):
    top = max(warmup_iters - 1, 0)
    if it < warmup_iters:
        return max_lr * (it + 1) / warmup_iters
    if it >= max_iters - 1:
        return min_lr if max_iters - 1 > top else max_lr
    ratio = (it - top) / (max_iters - 1 - top)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (max_lr - min_lr)


def get_lr_transformers(current_step, lr, num_warmup_steps, num_training_steps):
    if current_step < num_warmup_steps:
        return lr * float(current_step) / float(max(1, num_warmup_steps))
    progress = float(current_step - num_warmup_steps) / float(max(1, num_training_steps - num_warmup_steps))
    return lr * max(0.0, 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress))))


# Samplers and filters


def temperature(logits, T):
    return logits / T


def top_k_fill(logits, top_k):
    top_k = min(top_k, logits.shape[-1])
    order = np.argsort(-logits, axis=-1, kind="stable")
    out = np.full_like(logits, -1e10)
    kept = order[..., :top_k]
    np.put_along_axis(out, kept, np.take_along_axis(logits, kept, -1), -1)
    return np.where(np.isneginf(logits), -1e10, out)


def top_k_ties(logits, k):
    """As transformers: every token that equals the k-th stays."""
    k = min(k, logits.shape[-1])
    threshold = np.sort(logits, axis=-1)[..., -k][..., None]
    return np.where(logits < threshold, -np.inf, logits)


def top_k_probs(probs, k):
    order = np.argsort(-probs, kind="stable")
    kept = np.zeros_like(probs)
    kept[order[:k]] = probs[order[:k]]
    return kept / kept.sum()


def nucleus(logits, threshold):
    X = np.asarray(logits, dtype=np.float64).copy()
    flat = X.reshape(-1, X.shape[-1])
    for row in flat:
        P = np.exp(row - row.max())
        P /= P.sum()
        order = np.argsort(-row, kind="stable")
        total = 0.0
        for rank, token in enumerate(order):
            if total >= threshold and rank > 0:
                row[order[rank:]] = -np.inf
                break
            total += P[token]
    return X


def min_p_filter(logits, min_p=0.1):
    P = np.exp(logits - logits.max(-1, keepdims=True))
    P = P / P.sum(-1, keepdims=True)
    return np.where(P.max(-1, keepdims=True) * min_p * (1 - 1e-15) <= P, logits, -np.inf)


def repetition_once(logits, input_ids, penalty):
    """Once for each token seen, as in the paper."""
    scores = logits.copy()
    for token in set(input_ids):
        scores[token] = scores[token] / penalty if scores[token] > 0 else scores[token] * penalty
    return scores


def forbid(scores, bad_words):
    scores[..., list(bad_words)] = -float("inf")
    return scores


def sample_distribution(logits, temperature=1.0, top_k=None, top_p=1.0):
    X = np.asarray(logits, np.float64) / temperature
    if top_k is not None:
        order = np.argsort(-X, kind="stable")
        X[order[top_k:]] = -np.inf
    P = np.exp(X - X.max())
    P /= P.sum()
    if top_p < 1.0:
        order = np.argsort(-X, kind="stable")
        cumulative = np.cumsum(P[order])
        cut = int(np.searchsorted(cumulative, top_p)) + 1
        P[order[cut:]] = 0.0
        P /= P.sum()
    return P


def draw_token(probs, rng):
    return rng.choice(len(probs), p=probs)


def shift(batch):
    x, y = batch[:, :-1], batch[:, 1:]
    return x, y


def ppl(nll):
    return float(np.exp(nll)) if nll < 700 else float("inf")


# Checkpoints


def save_checkpoint(path, params, opt_state, step):
    arrays = {f"params/{name}": p for name, p in params.items()}
    for moment in ("exp_avg", "exp_avg_sq"):
        arrays |= {f"{moment}/{name}": x for name, x in opt_state[moment].items()}
    np.savez(path, step=step, state_step=opt_state["step"], **arrays)


def load_checkpoint(path):
    with np.load(path) as file:
        params = {name[7:]: file[name] for name in file.files if name.startswith("params/")}
        state = {"step": int(file["state_step"])}
        for moment in ("exp_avg", "exp_avg_sq"):
            state[moment] = {n[len(moment) + 1 :]: file[n] for n in file.files if n.startswith(moment + "/")}
        return params, state, int(file["step"])


def save_weights(params, filename):
    np.savez(filename, **params)


def load_weights(filename):
    with np.load(filename) as file:
        return dict(file.items())


def save_json(file, ckpt):
    def plain(x):
        if isinstance(x, dict):
            return {name: plain(each) for name, each in x.items()}
        if isinstance(x, np.ndarray):
            return {"dtype": str(x.dtype), "shape": x.shape, "hex": x.tobytes().hex()}
        return x

    with open(file, "w", encoding="utf-8") as out:
        json.dump(plain(ckpt), out)


def load_json(file):
    def back(x):
        if isinstance(x, dict) and x.keys() == {"dtype", "shape", "hex"}:
            return np.frombuffer(bytes.fromhex(x["hex"]), x["dtype"]).reshape(x["shape"]).copy()
        return {name: back(each) for name, each in x.items()} if isinstance(x, dict) else x

    with open(file, encoding="utf-8") as source:
        return back(json.load(source))


# Tokenizers


class WordTokenizer:
    """The source's rule in other words: no normalisation, special tokens behind the vocabulary."""

    def __init__(self, vocab):
        self.itos = [*vocab, "<BOS>", "<EOS>", "<UNK>", "<PAD>"]
        self.stoi = {token: i for i, token in enumerate(self.itos)}

    @classmethod
    def from_texts(cls, texts, min_frequency=1):
        from collections import Counter

        counts = Counter(token for text in texts for token in cls._cut(text))
        return cls(sorted(token for token, count in counts.items() if count >= min_frequency))

    @staticmethod
    def _cut(text):
        tokens, word = [], ""
        for character in text:
            if (character.isalnum() or character == "_") and not character.isdecimal():
                word += character
                continue
            if character.isdecimal() and word:
                word += character
                continue
            if word:
                tokens.append(word)
                word = ""
            tokens.append(character)
        return [*tokens, word] if word else tokens

    def tokenize(self, text):
        return self._cut(text)

    def encode(self, text):
        return [self.stoi.get(token, self.stoi["<UNK>"]) for token in self._cut(text)]

    def decode(self, ids):
        return "".join(self.itos[i] for i in ids)
