"""The passes by Triton kernels, for float32 and float64 on CUDA.

Stretches of columns are short enough to keep the whole device busy until the end. Functions
whose names begin with `enqueue` do not wait for the device.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, row_blocks
from weakprox.linalg.lowrank import LowRank, squared_norm
from weakprox.linalg.lowrank import blend_into as blend_into
from weakprox.passes import cuda_kernels, reference
from weakprox.passes.reference import TERMS, Step, Sums, group_norms

SAFE = 4  # units of rounding by which cuts are reduced, since their squares are inexact
COMPILED, IN_FLOAT64 = True, True  # as in `interface`
NARROWEST = 16  # narrowest block that tensor cores support
PROGRAMS = 8192  # number that keeps the device busy until the end
STRETCH = 512  # least number of columns per program
WIDEST = 128  # widest block that fits next to its tiles
WIDEST_LOOK = 256
CUT = (1, 2)  # codes of groups of rows and of columns, as in `Step.groups`
NARROW = 32  # widest block whose products within a kernel are faster than the library's
# rows, columns, warps and stages: the fastest of at least eleven on an H200, d = 20,000; for
# float64 of six, d = 8,000
ADVANCE, ADVANCE_64, MOVED, LOOK, VALUE, TIMES, TRANSPOSE = (
    (32, 32, 2, 4),
    (16, 16, 1, 3),
    (8, 128, 4, 3),
    (16, 16, 1, 3),
    (64, 32, 4, 3),
    (64, 32, 4, 3),
    (128, 32, 4, 3),
)


def first(C: Array, z: Array, k: Step, Q: Array | None = None) -> Array | None:
    """As `reference.first`."""
    apart = k.grouped or not k.has_kernel  # once in a run
    if apart or (Q is not None and Q.shape[1] > WIDEST):
        reference.first(C, z, k) if apart else first(C, z, k)
        return None if Q is None else times(z, Q)
    return enqueue_first(C, z, _numbers(k.numbers, C), Q, k.groups, k.beside)


def look(C: Array, z: Array | None, X: LowRank, k: Step) -> Sums:
    """As `reference.look`, without `across`."""
    widest = WIDEST_LOOK if C.element_size() == 4 else WIDEST
    if not k.has_kernel or int(X.s.shape[0]) > widest:
        return reference.look(C, z, X, k)
    numbers = _numbers(k.numbers, C)
    # one transfer to the host
    terms = enqueue_look(C, z, X, numbers, k.groups, k.beside).tolist()
    found = Sums._make([*terms, group_norms(X, k), 0.0])
    return found._replace(square=squared_norm(X.U, X.s, X.Vt.T)) if k.curvature else found


def advance(
    C: Array, z: Array, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """As `reference.advance`."""
    if not k.has_kernel or (k.grouped and int(X.s.shape[0]) > WIDEST):
        return reference.advance(C, z, X, k, change, Q)
    numbers = _numbers((*k.numbers, change), C)
    out, B = enqueue_advance(C, z, X, numbers, Q, groups=k.groups, weights=k.beside)
    return Sums._make([*out.tolist(), group_norms(X, k), 0.0]), B


def enqueue_first(
    C: Array,
    z: Array,
    numbers: Array,
    Q: Array | None,
    groups: int = 0,
    weights: Array | None = None,
) -> Array | None:
    """`first` without waiting and without groups, its constants in an array on the device."""
    nothing = LowRank(C[:, :1], C[0, :1], C[:1])  # not read
    how: Any = {"begin": True, "precise": False, "groups": groups, "weights": weights}
    return _pass(C, z, nothing, numbers, Q, **how)[1]


def enqueue_look(
    C: Array,
    z: Array | None,
    X: LowRank,
    numbers: Array,
    groups: int = 0,
    weights: Array | None = None,
) -> Array:
    """The sums of `look` on the device, without waiting."""
    m, n = C.shape
    unit = _unit(n)
    rows, columns, warps, stages = VALUE if z is None else LOOK
    U, Vt, rank = _rows(X.U), X.Vt.contiguous(), int(X.s.shape[0])
    per, grid = _grid(m, n, rows, columns)
    out = torch.empty((grid[0] * grid[1], TERMS), device=C.device, dtype=torch.float64)
    groups = 0 if z is None and groups in CUT else groups
    cuts = _cuts(C, z, X, numbers, groups, double=True) if groups in CUT else numbers
    cuda_kernels.look_kernel[grid](
        C, C if z is None else z, C if weights is None else weights, U, X.s, Vt, numbers,
        cuts, out, m, n // unit, rank,
        U.stride(0), per, z is not None, groups, unit, _power(rank), rows, columns,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out.sum(0)


def enqueue_advance(
    C: Array,
    z: Array,
    X: LowRank,
    numbers: Array,
    Q: Array | None,
    *,
    precise: bool = True,
    groups: int = 0,
    weights: Array | None = None,
) -> tuple[Array, Array | None]:
    """`advance` without waiting; the sums are an array on the device.

    A product that is not `precise` is rounded to TF32 if the block is narrow. That is enough
    for a power step, unless some of its columns are smaller than others by orders of magnitude.
    """
    if max(int(X.s.shape[0]), 0 if Q is None else int(Q.shape[1])) > NARROW:
        out = _stored_advance(C, z, X, numbers, groups, weights)
        return out, None if Q is None else arrays.quick_times(z, Q)
    how: Any = {"precise": precise, "groups": groups, "weights": weights}
    return _pass(C, z, X, numbers, Q, begin=False, **how)


def _stored_advance(
    C: Array, z: Array, X: LowRank, numbers: Array, groups: int, weights: Array | None
) -> Array:
    """The sums of `advance`, with X computed by the library's product and stored in part.

    Beyond some width that is faster than products within a kernel, despite more memory passes.
    """
    n = int(C.shape[1])
    unit = _unit(n)
    rows, columns, warps, stages = MOVED
    cuts = _cuts(C, z, X, numbers, groups, double=False) if groups in CUT else numbers
    left, found, slopes = X.U * X.s, [], C if weights is None else weights
    for part in row_blocks(C, z):
        point = left[part] @ X.Vt
        height = int(point.shape[0])
        per, grid = _grid(height, n, rows, columns)
        out = torch.empty((grid[0] * grid[1], TERMS), device=C.device, dtype=torch.float64)
        own = cuts[part] if groups == 1 else cuts
        cuda_kernels.moved_kernel[grid](
            C[part], z[part], slopes[part], point, numbers, own, out, height, n // unit, per,
            groups, unit, rows, columns, num_warps=warps, num_stages=stages,
        )  # fmt: skip
        found.append(out.sum(0))
    total = torch.stack(found).sum(0)
    total[-1] = (X.s.double() ** 2).sum()
    return total


def _cuts(
    C: Array, z: Array, X: LowRank, numbers: Array, groups: int, *, double: bool
) -> Array:
    """Shares by which groups shrink at the step from z, on the device, by a separate pass."""
    m, n = C.shape
    unit = _unit(n)
    rows, columns, warps, stages = LOOK if double else _tile(C)
    U, Vt, rank = _rows(X.U), X.Vt.contiguous(), int(X.s.shape[0])
    per, grid = _grid(m, n, rows, columns)
    by_rows = groups == 1
    shape = (grid[1], m) if by_rows else (grid[0], n)
    out = torch.empty(shape, device=C.device, dtype=torch.float64)
    cuda_kernels.squares_kernel[grid](
        C, z, U, X.s, Vt, numbers, out, m, n // unit, rank, U.stride(0), per,
        by_rows, double, unit, _power(rank), rows, columns, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    norms = out.sum(0).sqrt()
    safe = SAFE * arrays.eps_of(C) + max(m, n) * arrays.DOUBLE
    level = numbers[4 + groups] * (1.0 - safe)
    return torch.where(norms > level, level / torch.maximum(norms, level), 1.0)


def enqueue_whitening(G: Array) -> tuple[Array, Array]:
    """The matrix that makes columns with Gram matrix G orthonormal, and the least pivot.

    As `orthonormaliser`, without waiting; the pivot is 0 if there is no such matrix.
    """
    turn, least = torch.empty_like(G), torch.empty_like(G[0, 0])
    cuda_kernels.whitening_kernel[(1,)](G, turn, least, int(G.shape[0]), num_warps=1)
    return turn, least


def _pass(
    C: Array,
    z: Array,
    X: LowRank,
    numbers: Array,
    Q: Array | None,
    *,
    begin: bool,
    precise: bool,
    groups: int,
    weights: Array | None,
) -> tuple[Any, Array | None]:
    m, n = C.shape
    unit = _unit(n)
    rows, columns, warps, stages = _tile(C)
    U, Vt, rank = _rows(X.U), X.Vt.contiguous(), int(X.s.shape[0])
    width = 0 if Q is None else int(Q.shape[1])
    block = Vt if Q is None else _rows(Q)
    wide = _power(width)
    per, grid = _grid(m, n, rows, columns)
    B = torch.empty((grid[1], m, wide), device=C.device, dtype=C.dtype)
    out = torch.empty((grid[0] * grid[1], TERMS), device=C.device, dtype=torch.float64)
    cuts = _cuts(C, z, X, numbers, groups, double=False) if groups in CUT else numbers
    cuda_kernels.advance_kernel[grid](
        C, z, C if weights is None else weights, U, X.s, Vt, block, B, numbers, cuts, out,
        m, n // unit, rank, width, U.stride(0), block.stride(0), per, begin, precise, groups,
        unit, _power(rank), wide, rows, columns,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out.sum(0), None if Q is None else _joined(B, width)


def _tile(C: Array) -> tuple[int, int, int, int]:
    """Rows, columns, warps and stages of a step, whose sums must fit into registers."""
    return ADVANCE if C.element_size() == 4 else ADVANCE_64


def _numbers(numbers: Any, C: Array) -> Array:
    """Constants in float64 on the device; kernel arguments would be rounded."""
    return torch.tensor((*numbers, 1.0), dtype=torch.float64, device=C.device)


def beside(C: Array, given: Any) -> Array:
    """As `reference.beside`, in contiguous memory."""
    return reference.beside(C, given).contiguous()


def times(z: Array, V: Array) -> Array:
    """As `reference.times`."""
    return _product(cuda_kernels.times_kernel, TIMES, z, V, *z.shape)


def transpose_times(z: Array, U: Array) -> Array:
    """As `reference.transpose_times`."""
    return _product(cuda_kernels.transpose_times_kernel, TRANSPOSE, z, U, *z.shape[::-1])


# These kernels are faster than the library's products in float32, and in float64.
quick_times, quick_transpose_times = times, transpose_times


def _product(kernel: Any, shape: tuple[int, ...], z: Array, V: Array, m: int, n: int) -> Array:
    rows, columns, warps, stages = shape
    V, width = _rows(V), int(V.shape[1])
    if width > WIDEST:
        parts = [V[:, i : i + WIDEST] for i in range(0, width, WIDEST)]
        return torch.cat([_product(kernel, shape, z, part, m, n) for part in parts], dim=1)
    per, grid = _grid(m, n, rows, columns)
    B = torch.empty((grid[1], m, _power(width)), device=z.device, dtype=torch.float64)
    unit = _unit(int(z.shape[1]))
    sizes = int(z.shape[0]), int(z.shape[1]) // unit
    kernel[grid](
        z, V, B, *sizes, width, V.stride(0), per, unit, _power(width), rows, columns,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return _joined(B, width)


def _joined(B: Any, width: int) -> Array:
    """The sum over stretches, in a fixed order, without the padding columns."""
    return (B[0] if B.shape[0] == 1 else B.sum(0))[:, :width]


def _grid(m: int, n: int, rows: int, columns: int) -> tuple[int, tuple[int, int]]:
    """Number of columns in a stretch, and of programs in each direction."""
    down = -(-m // rows)  # in Python: Triton's own function takes ten times as long
    along = max(1, min(PROGRAMS // down, n // STRETCH))
    per = columns * -(-n // (columns * along))
    return per, (down, -(-n // per))


def _unit(n: int) -> int:
    """A factor of n that kernels are compiled for: 8, 4, 2 or 1.

    For multiples of 16 it is 1, since the compiler looks for that factor by itself.
    """
    return math.gcd(n, 16) if n % 16 else 1


def _power(width: int) -> int:
    """The next power of two, as required for tiles."""
    return max(NARROWEST, 1 << (max(1, width) - 1).bit_length())


def _rows(x: Array) -> Array:
    """x itself if its rows are contiguous in memory, else a copy."""
    return x if x.stride(1) == 1 else x.contiguous()
