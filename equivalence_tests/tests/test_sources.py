"""What the two sources claim about attention, layer norm, dropout, embedding and the loss, on the torch twin."""

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_impl import (
    LayerNorm,
    MultiHeadSelfAttention,
    SelfAttentionHead,
    SelfAttentionV1,
    SelfAttentionV2,
    SimpleSelfAttention,
    cross_entropy,
    dropout,
    embedding,
    layer_norm,
    multi_head_attention,
    softmax,
)
from torch_impl.dropout import draw_keep

B, n, d, c, H = 2, 5, 7, 3, 4
CONFIG = SimpleNamespace(embedding_dim=d, head_dim=c, num_heads=H, dropout=0.2)
U = torch.finfo(torch.float64).eps / 2


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(20240517)


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def assert_agree(got: Tensor, want: Tensor, longest_sums: list[int]) -> None:
    """Two evaluations of one formula in float64, whose chained sums have the lengths `longest_sums`.

    A sum of k products costs (k + 1) u of the largest number in play, here taken to be the result's or 1, and so in both
    evaluations. The worst case needs every rounding to point the same way: a tenth of the budget is what gets used.
    """
    got, want = got.detach(), want.detach()
    budget = 2 * sum(k + 1 for k in longest_sums) * U * max(1.0, float(want.abs().max()))
    deviation = float((got - want).abs().max())
    assert got.shape == want.shape
    assert deviation <= budget, f"deviation {deviation:.2e}, budget {budget:.2e}"


def gradients(Y: Tensor, inputs: Tensor | list[Tensor], dY: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(Y, inputs, dY)


def test_the_simple_attention_is_softmax_of_x_xt_times_x():
    X, dC = randn(B, n, d).requires_grad_(), randn(B, n, d)
    C = SimpleSelfAttention()(X)
    want = torch.softmax(torch.einsum("bid,bjd->bij", X, X), -1) @ X
    assert_agree(C, want, [d, n, n])
    assert_agree(gradients(C, X, dC)[0], gradients(want, X, dC)[0], [d, n, n, n * d])


def test_plain_parameters_equal_linear_layers_after_transposing():
    one, two = SelfAttentionV1(d, c).double(), SelfAttentionV2(d, c).double()
    with torch.no_grad():
        two.query.weight.copy_(one.Wq.T)
        two.key.weight.copy_(one.Wk.T)
        two.value.weight.copy_(one.Wv.T)
    X, dC = randn(B, n, d).requires_grad_(), randn(B, n, c)
    C_one, C_two = one(X), two(X)
    chain = [d, c, n, n, B * n]
    assert_agree(C_one, C_two, chain)
    dX_one, *dW_one = gradients(C_one, [X, one.Wq, one.Wk, one.Wv], dC)
    dX_two, *dW_two = gradients(C_two, [X, two.query.weight, two.key.weight, two.value.weight], dC)
    assert_agree(dX_one, dX_two, chain)
    for left, right in zip(dW_one, dW_two, strict=True):
        assert float(left.abs().max()) > 0.0
        assert_agree(left, right.T, chain)


def test_version_1_is_the_loops_over_tokens():
    module = SelfAttentionV1(d, c).double()
    X, dC = randn(n, d).requires_grad_(), randn(n, c)
    rows = []
    for i in range(n):
        q = X[i] @ module.Wq
        omega = torch.stack([q @ (X[j] @ module.Wk) for j in range(n)])
        weights = (omega / math.sqrt(c)).exp()
        values = torch.stack([X[j] @ module.Wv for j in range(n)])
        rows.append((weights / weights.sum())[:, None].mul(values).sum(0))
    C, want = module(X), torch.stack(rows)
    chain = [d, c, n, n, n]
    assert_agree(C, want, chain)
    operands = [X, module.Wq, module.Wk, module.Wv]
    for left, right in zip(gradients(C, operands, dC), gradients(want, operands, dC), strict=True):
        assert_agree(left, right, chain)


def test_a_head_is_softmax_over_the_scores_with_minus_infinity_for_the_future():
    head = SelfAttentionHead(CONFIG).double().eval()
    X, dC = randn(B, n, d).requires_grad_(), randn(B, n, c)
    Q, K, V = X @ head.query.weight.T, X @ head.key.weight.T, X @ head.value.weight.T
    S = (Q @ K.mT / math.sqrt(c)).masked_fill(torch.ones(n, n).triu(1).bool(), -math.inf)
    C, want = head(X), S.softmax(-1) @ V
    chain = [d, c, n, n, B * n]
    assert_agree(C, want, chain)
    operands = [X, head.query.weight, head.key.weight, head.value.weight]
    for left, right in zip(gradients(C, operands, dC), gradients(want, operands, dC), strict=True):
        assert float(right.abs().max()) > 1e-3  # a gradient that vanished would prove nothing
        assert_agree(left, right, chain)


def test_linear_layers_take_a_bias_on_request():
    names = [name for name, _ in SelfAttentionV2(d, c, bias=True).named_parameters()]
    assert names == [f"{part}.{kind}" for part in ("query", "key", "value") for kind in ("weight", "bias")]


def test_version_1_starts_with_queries_as_large_as_its_inputs():
    wide, many = 64, 256
    Q = torch.randn(many, wide) @ SelfAttentionV1(wide, wide).Wq
    # The variance of `many * wide` dependent draws: its own spread is below sqrt(2 / wide) / sqrt(wide) * 4, about 0.09.
    assert float(Q.detach().var()) == pytest.approx(1.0, abs=4 * math.sqrt(2 / wide) / math.sqrt(wide))


def test_layer_norm_equals_nn_layer_norm():
    ours, theirs = LayerNorm(d).double(), nn.LayerNorm(d).double()
    scale, shift = randn(d), randn(d)
    with torch.no_grad():
        for module, names in ((ours, ("scale", "shift")), (theirs, ("weight", "bias"))):
            getattr(module, names[0]).copy_(scale)
            getattr(module, names[1]).copy_(shift)
    X, dY = (3.0 * randn(B, n, d) + 2.0).requires_grad_(), randn(B, n, d)
    Y, want = ours(X), theirs(X)
    assert_agree(Y, want, [d, d])
    got = gradients(Y, [X, ours.scale, ours.shift], dY)
    for left, right in zip(got, gradients(want, [X, theirs.weight, theirs.bias], dY), strict=True):
        assert_agree(left, right, [d, d, d, B * n])


def test_layer_norm_follows_its_formula_step_by_step():
    X, scale, shift, dY = (x.requires_grad_() for x in (3.0 * randn(B, n, d) + 2.0, randn(d), randn(d), randn(B, n, d)))
    epsilon = 1e-2  # large, so that its place matters
    mean, var = X.mean(-1, keepdim=True), X.var(-1, keepdim=True, unbiased=False)
    want = scale * (X - mean) / torch.sqrt(var + epsilon) + shift
    Y = layer_norm(X, scale, shift, epsilon)
    assert_agree(Y, want, [d, d])
    operands = [X, scale, shift]
    for left, right in zip(gradients(Y, operands, dY), gradients(want, operands, dY), strict=True):
        assert_agree(left, right, [d, d, d, B * n])


def test_layer_norm_gives_each_token_mean_0_and_variance_1():
    X = 3.0 * randn(B, n, d) + 2.0
    Y = LayerNorm(d).double()(X)
    var = X.var(-1, unbiased=False)
    assert_agree(Y.mean(-1), torch.zeros(B, n).double(), [d, d])
    assert_agree(Y.var(-1, unbiased=False), var / (var + 1e-5), [d, d, d])  # epsilon keeps it just below 1


def test_zeros_after_the_softmax_break_the_row_sums_and_minus_infinity_before_does_not():
    S = randn(n, n)
    future = torch.ones(n, n).triu(1).bool()
    after = softmax(S).masked_fill(future, 0.0).sum(-1)
    before = softmax(S.masked_fill(future, -math.inf))
    assert (after[:-1] < 1.0 - 1e-3).all()  # each row but the last loses at least one weight of visible size
    assert_agree(before.sum(-1), torch.ones(n).double(), [n, n])
    assert (before[future] == 0.0).all()


def test_dropout_of_0_2_makes_the_kept_entries_1_25():
    keep = draw_keep((40, 50), 0.2, torch.device("cpu"))
    Y = dropout(torch.ones(40, 50), keep, 0.2)
    assert set(Y.flatten().tolist()) == {0.0, 1.25}
    assert torch.equal(Y != 0.0, keep)
    dropped = 1.0 - float(keep.double().mean())
    assert dropped == pytest.approx(0.2, abs=5 * math.sqrt(0.2 * 0.8 / keep.numel()))  # five standard deviations


def test_training_drops_attention_weights_without_renormalising():
    """With V = 1 and Q = 0 the output is dropout(A), and A is uniform over the past."""
    head = SelfAttentionHead(SimpleNamespace(embedding_dim=n, head_dim=n, num_heads=1, dropout=0.2)).double()
    with torch.no_grad():
        head.query.weight.zero_()
        head.value.weight.copy_(torch.eye(n))
    X = torch.eye(n, dtype=torch.float64).expand(30, n, n)
    A = torch.ones(n, n).tril().double() / torch.arange(1, n + 1).double()[:, None]
    dropped = head(X)
    kept = dropped != 0.0
    assert_agree(dropped, torch.where(kept, 1.25 * A, 0.0), [n, n])
    assert 0 < int(kept.sum()) < 30 * n * (n + 1) // 2
    assert head.attn_matrix is None
    assert not torch.equal(head(X), dropped)  # a new mask each time
    given = torch.rand(30, n, n) < 0.5
    assert_agree(head(X, keep=given), torch.where(given, 1.25 * A, 0.0), [n, n])


@pytest.mark.parametrize("kind", [SelfAttentionHead, MultiHeadSelfAttention])
def test_evaluation_drops_nothing_and_keeps_the_causal_attention_matrix(kind):
    module = kind(CONFIG).double().eval()
    X = randn(B, n, d)
    assert torch.equal(module(X), module(X))
    A = module.attn_matrix
    assert A.shape == ((B, n, n) if kind is SelfAttentionHead else (B, H, n, n))
    assert not A.requires_grad
    assert_agree(A.sum(-1), torch.ones(A.shape[:-1]).double(), [n, n])
    assert (A.triu(1) == 0.0).all()
    assert (A.diagonal(dim1=-2, dim2=-1) > 0.0).all()


def test_without_dropout_training_and_evaluation_agree():
    module = MultiHeadSelfAttention(SimpleNamespace(**{**vars(CONFIG), "dropout": 0.0})).double()
    X = randn(B, n, d)
    assert_agree(module.train()(X), module.eval()(X), [d, c, n, n, H * c])


def test_a_product_with_one_hot_vectors_is_the_embedding():
    ids = torch.tensor([[1, 4, 1], [0, 1, 4]])  # repeats, and rows 2, 3 and 5 are not named
    weight, dY = randn(6, d).requires_grad_(), randn(2, 3, d)
    Y = embedding(ids, weight)
    product = F.one_hot(ids, 6).double() @ weight
    assert torch.equal(Y, product)  # 1 w + 0 + 0 ... is exact
    dweight = gradients(Y, weight, dY)[0]
    assert_agree(dweight, gradients(product, weight, dY)[0], [ids.numel()])
    assert (dweight[[2, 3, 5]] == 0.0).all()


def heads_and_their_union() -> tuple[list[SelfAttentionHead], MultiHeadSelfAttention]:
    """A list of H heads and the module that holds the same weights in one product each."""
    heads = [SelfAttentionHead(CONFIG).double() for _ in range(H)]
    union = MultiHeadSelfAttention(CONFIG).double()
    with torch.no_grad():
        for part in ("query", "key", "value"):
            getattr(union, part).weight.copy_(torch.cat([getattr(head, part).weight for head in heads]))
    return heads, union


@pytest.mark.parametrize("training", [False, True])
def test_heads_as_a_list_equal_heads_in_one_product(training):
    heads, union = heads_and_their_union()
    for module in (*heads, union):
        module.train(training)
    X, dY, keep = randn(B, n, d).requires_grad_(), randn(B, n, d), torch.rand(B, H, n, n) < 0.8
    listed = torch.cat([head(X, keep=keep[:, h]) for h, head in enumerate(heads)], -1) @ union.projection.weight.T
    Y = union(X, keep=keep)
    chain = [d, c, n, n, H * c, B * n]
    assert_agree(Y, listed, chain)
    parts = ("query", "key", "value")
    weights = [getattr(union, part).weight for part in parts]
    dX, dprojection, *got = gradients(Y, [X, union.projection.weight, *weights], dY)
    separate = [getattr(head, part).weight for part in parts for head in heads]
    want_X, want_projection, *want = gradients(listed, [X, union.projection.weight, *separate], dY)
    assert_agree(dX, want_X, chain)
    assert_agree(dprojection, want_projection, chain)
    for i, dweight in enumerate(got):
        assert_agree(dweight, torch.cat(want[i * H : (i + 1) * H]), chain)
    if not training:
        maps = [head.attn_matrix for head in heads if head.attn_matrix is not None]
        assert union.attn_matrix is not None
        assert_agree(union.attn_matrix, torch.stack(maps, 1), [d, c, n])


def test_the_module_of_many_heads_equals_the_function_after_transposing():
    module = MultiHeadSelfAttention(CONFIG).double()
    X, keep = randn(B, n, d), torch.rand(B, H, n, n) < 0.8
    Wq, Wk, Wv, Wo = (layer.weight.T for layer in (module.query, module.key, module.value, module.projection))
    Y = multi_head_attention(X, Wq, Wk, Wv, Wo, H, causal=True, keep=keep, p=0.2)
    assert_agree(module(X, keep=keep), Y, [d, c, n, n, H * c])


def test_the_keys_of_the_attention_module_are_those_of_the_flat_dict():
    shapes = {name: tuple(value.shape) for name, value in MultiHeadSelfAttention(CONFIG).state_dict().items()}
    width = H * c
    assert shapes == {
        "query.weight": (width, d),
        "key.weight": (width, d),
        "value.weight": (width, d),
        "projection.weight": (d, width),
    }


def test_the_loss_step_by_step_equals_the_loss_in_one_call():
    classes = 11
    logits = randn(B, n, classes).requires_grad_()
    targets = torch.randint(classes, (B, n))
    stepwise = -softmax(logits).gather(-1, targets[..., None]).log().mean()
    at_once = cross_entropy(logits, targets)
    chain = [classes, B * n]
    assert_agree(at_once, stepwise, chain)
    dloss = randn()
    assert_agree(gradients(at_once, logits, dloss)[0], gradients(stepwise, logits, dloss)[0], chain)


def test_a_uniform_guess_costs_the_logarithm_of_the_number_of_classes():
    loss = cross_entropy(torch.zeros(B, n, 11).double(), torch.randint(11, (B, n)))
    assert_agree(loss, torch.tensor(math.log(11), dtype=torch.float64), [11, B * n])


def test_padding_is_left_out_and_the_mean_is_over_tokens_not_over_sequences():
    """Token losses [4] and [1, 1, 1]: 7/4 over tokens, while the mean of the sequences' means would be 2.5."""
    pad = 2
    targets = torch.tensor([[0, pad, pad], [0, 0, 0]])
    losses = torch.tensor([[4.0, 9.0, 9.0], [1.0, 1.0, 1.0]]).double()
    logits = torch.full((2, 3, 3), -1e3).double()  # class `pad` has no probability
    logits[..., 0] = 0.0
    logits[..., 1] = torch.log(torch.expm1(losses))  # -log softmax at class 0 is log(1 + e^x) = loss
    logits.requires_grad_()
    loss = cross_entropy(logits, targets, ignore_index=pad)
    assert_agree(loss, torch.tensor(1.75).double(), [3, 4])
    dlogits = gradients(loss, logits, randn())[0]
    assert (dlogits[targets == pad] == 0.0).all()
    assert (dlogits[targets != pad][:, :2] != 0.0).all()
    elsewhere = torch.where((targets == pad)[..., None], randn(2, 3, 3), logits.detach())
    assert torch.equal(cross_entropy(elsewhere, targets, ignore_index=pad), loss)
