"""The closed forms of the test-time trained operators against autograd's inner gradient."""

import pytest
import torch
import torch.nn.functional as F
from small_modules import DIM, HEADS, build, tokens

from linvit.operators import bind

HEAD = DIM // HEADS


def heads(x):
    """(N, H * D) to (H, N, D)."""
    return x.unflatten(-1, (-1, HEAD)).transpose(0, 1)


def clipped(gradient, dim):
    return gradient / (gradient.norm(dim=dim, keepdim=True) + 1)


def trained_linear(module, q, k, v):
    """One image: ViT^3's first branch by its inner loss."""
    start = [module.w1[0].detach().requires_grad_(), module.w2[0].detach().requires_grad_()]

    def inner(t, weights):
        return (t @ weights[0]) * F.silu(t @ weights[1])

    loss = -(v * inner(k, start)).sum() / 3 / k.shape[1]
    gradients = torch.autograd.grad(loss, start)
    stepped = [w - clipped(g, 1) for w, g in zip(start, gradients, strict=True)]
    return inner(q, stepped)


def trained_depthwise(module, q, k, v, grid):
    """One image: ViT^3's second branch by its inner loss; q, k, v (h * w, D)."""
    kernel = module.w3.detach().requires_grad_()

    def inner(t, weight):
        return F.conv2d(t.T.unflatten(1, grid), weight, padding=1, groups=HEAD)

    target = v.T.unflatten(1, grid)
    loss = -(target * inner(k, kernel)).sum() / 3 / len(k)
    (gradient,) = torch.autograd.grad(loss, kernel)
    out = inner(q, kernel - clipped(gradient.flatten(2), 2).view_as(kernel))
    return out.flatten(1).T


@pytest.mark.parametrize(("grid", "prefix"), [((4, 4), 1), ((2, 3), 0)])
def test_ttt_takes_the_inner_gradient_step(grid, prefix):
    module, x = build("ttt", grid, prefix), tokens(grid, prefix)
    out = module.mix(x)
    for image, ours in zip(module.qkv(x).detach(), out, strict=True):
        *first, q, k, v = image.split([DIM] * 3 + [HEAD] * 3, -1)
        linear = trained_linear(module, *map(heads, first)).transpose(0, 1).flatten(1)
        torch.testing.assert_close(ours[:, :DIM], linear)
        # The class token has no place in the grid: zeros in the second branch.
        assert not ours[:prefix, DIM:].any()
        depthwise = trained_depthwise(module, q[prefix:], k[prefix:], v[prefix:], grid)
        torch.testing.assert_close(ours[prefix:, DIM:], depthwise)


def with_local(module, x, conv, grid, prefix):
    image = x[prefix:].T.unflatten(1, grid)
    local = F.conv2d(image, conv.weight, conv.bias, padding=1, groups=DIM)
    return torch.cat([x[:prefix], x[prefix:] + local.flatten(1).T])


@pytest.mark.parametrize(("grid", "prefix"), [((4, 4), 1), ((2, 3), 0)])
def test_ttt_inherit_takes_the_inner_gradient_step(grid, prefix):
    module, x = build("ttt_inherit", grid, prefix), tokens(grid, prefix)
    out = module.mix(x)
    start = [getattr(module, name)[0].detach().requires_grad_() for name in ("w1", "w2", "w3")]

    def inner(t, weights):
        return (F.silu(t @ weights[0]) * (t @ weights[1])) @ weights[2]

    for image, ours in zip(module.qkv(x).detach(), out, strict=True):
        q, k, v = image.chunk(3, -1)
        k = (k - k.mean(0)) / (k.var(0, correction=0) + 1).sqrt()
        q = heads(with_local(module, q, module.q_conv2d, grid, prefix)).detach()
        k = heads(with_local(module, k, module.k_conv2d, grid, prefix)).detach()
        loss = -(heads(v) * inner(k, start)).sum() * HEAD**-0.5 / len(image)
        steps = zip(start, torch.autograd.grad(loss, start), strict=True)
        expected = inner(q, [weight - gradient for weight, gradient in steps])
        torch.testing.assert_close(ours, expected.transpose(0, 1).flatten(1))


def test_a_random_ttt_starts_alive_with_fan_in():
    quiet = bind("ttt", grid=(4, 4))(DIM, HEADS, qkv_bias=True)
    alive = bind("ttt", grid=(4, 4), inner_std="fan_in")(DIM, HEADS, qkv_bias=True)
    x = tokens().float()
    assert alive.mix(x).square().mean() > 50 * quiet.mix(x).square().mean()
