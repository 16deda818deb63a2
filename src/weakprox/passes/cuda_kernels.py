"""The Triton kernels of the passes.

A program processes a tile of rows along a stretch of columns, so that its sums and its rows of
z Q stay in registers. `look`, on which proofs rest, computes in float64; the sums of `advance`
are estimates in the type of the data. `groups` is the code of a `Step`. The length of a row is
UNIT times an integer: the compiler loads several numbers at once only if it knows the factor.
"""

from __future__ import annotations

import triton
import triton.language as tl

TERMS = tl.constexpr(6)  # sums over entries, in the order of Sums


# positions in an array of constants, in the order of Step
GAMMA, BETA, CURVATURE, ABOVE, BELOW = (tl.constexpr(i) for i in range(5))
LOW, HIGH, FACTOR, CHANGE = (tl.constexpr(i) for i in (7, 8, 9, 10))


@triton.jit
def _clip(x, below, above):
    return tl.minimum(tl.maximum(x, -below), above)


@triton.jit
def _factor(U, s, i, r, m, rank, row, kind: tl.constexpr):
    """Rows i of U diag(s), padded with zeros to a width that tiles support."""
    inside = (i < m)[:, None] & (r < rank)[None, :]
    u = tl.load(U + i.to(tl.int64)[:, None] * row + r[None, :], mask=inside, other=0.0)
    return u.to(kind) * tl.load(s + r, mask=r < rank, other=0.0).to(kind)[None, :]


@triton.jit
def _square_once(s, r, rank):
    """The sum of s^2 in the first program, 0 in the others."""
    values = tl.load(s + r, mask=r < rank, other=0.0).to(tl.float64)
    is_first = (tl.program_id(0) == 0) & (tl.program_id(1) == 0)
    return tl.where(is_first, tl.sum(values * values), 0.0)


@triton.jit
def _rounded_down(bound, kind: tl.constexpr):
    """Round a bound in float64 down to this type."""
    found = bound.to(kind)
    return tl.where(found.to(tl.float64) > bound, found * (1.0 - 1.2e-7), found)


@triton.jit
def _constants(numbers, kind: tl.constexpr):
    """gamma, beta, the curvature, both slopes, where they begin, the change of gamma."""
    return (
        tl.load(numbers + GAMMA).to(kind),
        tl.load(numbers + BETA).to(kind),
        tl.load(numbers + CURVATURE).to(kind),
        tl.load(numbers + ABOVE).to(kind),
        tl.load(numbers + BELOW).to(kind),
        tl.load(numbers + LOW).to(kind),
        tl.load(numbers + HIGH).to(kind),
        tl.load(numbers + CHANGE).to(kind),
    )


@triton.jit
def _more(weights, at, inside, numbers, kind: tl.constexpr):
    """The slopes that weights add to entries."""
    w = tl.load(weights + at, mask=inside, other=0.0)
    return tl.load(numbers + FACTOR).to(kind) * w.to(kind)


@triton.jit
def _least(slope, kind: tl.constexpr):
    """Slopes of entries, reduced by more than the rounding of their factors and sums."""
    share: tl.constexpr = 1.0 - 1e-15 if kind == tl.float64 else 1.0 - 4e-7
    return slope * share


@triton.jit
def _beyond(t, low, high, inside, groups: tl.constexpr):
    """The part of t beyond where slopes begin, which is zero unless the code is 3.

    It is zero for entries that only pad a tile: their t is.
    """
    if groups == 3:
        t = tl.where(inside, t - tl.minimum(tl.maximum(t, low), high), 0.0)
    return t


@triton.jit
def _price(x, above, below, low, high, inside, groups: tl.constexpr):
    """The penalty of entries; zero for those that only pad a tile."""
    if groups == 3:
        found = above * tl.maximum(x - high, 0.0) + below * tl.maximum(low - x, 0.0)
        found = tl.where(inside, found, 0.0)
    else:
        found = tl.maximum(above * x, -below * x)
    return found


@triton.jit
def _along(pull, x, low, high, groups: tl.constexpr):
    """s x - R*(s) of entries; zero where s is."""
    found = pull * x
    if groups == 3:
        found -= pull * tl.where(pull > 0.0, high, low)
    return found


@triton.jit
def _move(
    X, c, z, gamma, beta, curvature, above, below, low, high, cuts, inside, i, j, m, n,
    groups: tl.constexpr,
):  # fmt: skip
    """The dual point of a step and its move Y - X, as `reference.split`."""
    step = 1.0 / gamma
    t = (2.0 - gamma * (beta + curvature)) * X + gamma * beta * c - z
    pull = _clip(_beyond(t, low, high, inside, groups) * step, below, above)
    if groups == 1:  # rows
        share = tl.load(cuts + i, mask=i < m, other=0.0).to(c.dtype)
        pull += share[:, None] * (t * step - pull)
    if groups == 2:  # columns
        share = tl.load(cuts + j, mask=j < n, other=0.0).to(c.dtype)
        pull += share[None, :] * (t * step - pull)
    return pull, t - gamma * pull - X


@triton.jit
def _store_estimates(out, distance, price, along, rest, square):
    """Store the sums of a program, added in float64 after one direction."""
    out += (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * TERMS
    tl.store(out, tl.sum(tl.sum(distance, axis=1).to(tl.float64)))
    tl.store(out + 1, tl.sum(tl.sum(price, axis=1).to(tl.float64)))
    tl.store(out + 2, tl.sum(tl.sum(along, axis=1).to(tl.float64)))
    tl.store(out + 3, 0.0)
    tl.store(out + 4, tl.sum(tl.sum(rest, axis=1).to(tl.float64)))
    tl.store(out + 5, square)


@triton.jit
def look_kernel(
    C, Z, weights, U, s, Vt, numbers, cuts, out, m, columns, rank, row_u, per,
    whole: tl.constexpr, groups: tl.constexpr, UNIT: tl.constexpr,
    R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    n = columns * UNIT
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    r = tl.arange(0, R)
    here = i < m
    u = _factor(U, s, i, r, m, rank, row_u, tl.float64)
    gamma, beta = tl.load(numbers + GAMMA), tl.load(numbers + BETA)
    curvature = tl.load(numbers + CURVATURE)
    up, down = tl.load(numbers + ABOVE), tl.load(numbers + BELOW)
    low, high = tl.load(numbers + LOW), tl.load(numbers + HIGH)
    step = 1.0 / gamma
    weight = beta + curvature - step  # coefficient of X in the rest
    kind: tl.constexpr = C.dtype.element_ty
    ahead = (2.0 - gamma * (beta + curvature)).to(kind)
    toward, steep = (gamma * beta).to(kind), step.to(kind)
    above, below = _rounded_down(up, kind), _rounded_down(down, kind)
    distance = tl.zeros((BM, BN), tl.float64)
    price = tl.zeros((BM, BN), tl.float64)
    along = tl.zeros((BM, BN), tl.float64)
    rest = tl.zeros((BM, BN), tl.float64)
    base = i.to(tl.int64)[:, None] * n
    left = tl.program_id(1) * per
    for start in range(left, min(left + per, n), BN):
        j = start + tl.arange(0, BN)
        inside = here[:, None] & (j < n)[None, :]
        known = (r < rank)[:, None] & (j < n)[None, :]
        v = tl.load(Vt + r[:, None] * n + j[None, :], mask=known, other=0.0)
        X = tl.dot(u, v.to(tl.float64), out_dtype=tl.float64)
        near = tl.load(C + base + j[None, :], mask=inside, other=0.0)
        c = near.to(tl.float64)
        far = X - c
        distance += far * far
        if groups == 3:
            price += _price(X, up, down, low, high, inside, groups)
        elif groups == 4:
            more = _more(weights, base + j[None, :], inside, numbers, tl.float64)
            price += X * tl.where(X.to(tl.float32) > 0.0, up + more, -(down + more))
        else:
            # max(up X, -down X): the sign is read in float32, as float64 comparisons are slow
            price += X * tl.where(X.to(tl.float32) > 0.0, up, -down)
        if whole:
            at = tl.load(Z + base + j[None, :], mask=inside, other=0.0)
            # any s in the dual set is valid, so the precision of the data is enough
            t = ahead * X.to(kind) + toward * near - at
            past = _beyond(t, low.to(kind), high.to(kind), inside, groups)
            if groups == 4:
                more = _more(weights, base + j[None, :], inside, numbers, kind)
                y = _clip(past * steep, _least(below + more, kind), _least(above + more, kind))
            else:
                y = _clip(past * steep, below, above)
            pull = y.to(tl.float64)
            if groups == 1:  # rows
                share = tl.load(cuts + i, mask=here, other=0.0)
                pull += share[:, None] * (t * steep - y).to(tl.float64)
            if groups == 2:  # columns
                share = tl.load(cuts + j, mask=j < n, other=0.0)
                pull += share[None, :] * (t * steep - y).to(tl.float64)
            q = weight * X + pull + step * at.to(tl.float64) - beta * c
            along += _along(pull, X, low, high, groups)
            rest += q * q
    out += (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * TERMS
    tl.store(out, tl.sum(distance))
    tl.store(out + 1, tl.sum(price))
    tl.store(out + 2, tl.sum(along))
    tl.store(out + 3, float("nan"))  # computed from triplets, since another sum is expensive
    tl.store(out + 4, tl.sum(rest))
    tl.store(out + 5, _square_once(s, r, rank))


@triton.jit
def squares_kernel(
    C, Z, U, s, Vt, numbers, out, m, columns, rank, row_u, per,
    by_rows: tl.constexpr, double: tl.constexpr, UNIT: tl.constexpr,
    R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    # Squares of the thresholded target, from which groups are cut: sums over the columns of a
    # stretch for each row, or over the rows of a tile for each column. X is computed as in the
    # pass that follows.
    n = columns * UNIT
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    r = tl.arange(0, R)
    here = i < m
    kind: tl.constexpr = C.dtype.element_ty
    precise: tl.constexpr = double or kind == tl.float64
    u = _factor(U, s, i, r, m, rank, row_u, tl.float64 if precise else tl.float32)
    gamma, beta = tl.load(numbers + GAMMA), tl.load(numbers + BETA)
    curvature = tl.load(numbers + CURVATURE)
    above = _rounded_down(tl.load(numbers + ABOVE), kind)
    below = _rounded_down(tl.load(numbers + BELOW), kind)
    ahead = (2.0 - gamma * (beta + curvature)).to(kind)
    toward, steep = (gamma * beta).to(kind), (1.0 / gamma).to(kind)
    base = i.to(tl.int64)[:, None] * n
    total = tl.zeros((BM, BN), tl.float64)
    first = tl.program_id(1) * per
    for start in range(first, min(first + per, n), BN):
        j = start + tl.arange(0, BN)
        inside = here[:, None] & (j < n)[None, :]
        known = (r < rank)[:, None] & (j < n)[None, :]
        v = tl.load(Vt + r[:, None] * n + j[None, :], mask=known, other=0.0)
        if precise:
            X = tl.dot(u, v.to(tl.float64), out_dtype=tl.float64).to(kind)
        else:
            X = tl.dot(u, v, input_precision="tf32x3")
        c = tl.load(C + base + j[None, :], mask=inside, other=0.0)
        at = tl.load(Z + base + j[None, :], mask=inside, other=0.0)
        t = (ahead * X + toward * c - at) * steep
        left = tl.where(inside, t - _clip(t, below, above), 0.0).to(tl.float64)
        if by_rows:
            total += left * left
        else:
            found = tl.sum(left * left, axis=0)
            tl.store(out + tl.program_id(0).to(tl.int64) * n + j, found, mask=j < n)
    if by_rows:
        found = tl.sum(total, axis=1)
        tl.store(out + tl.program_id(1).to(tl.int64) * m + i, found, mask=here)


@triton.jit
def advance_kernel(
    C, Z, weights, U, s, Vt, Q, B, numbers, cuts, out, m, columns, rank, width,
    row_u, row_q, per,
    begin: tl.constexpr, precise: tl.constexpr, groups: tl.constexpr, UNIT: tl.constexpr,
    R: tl.constexpr, W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    n = columns * UNIT
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    r, w = tl.arange(0, R), tl.arange(0, W)
    here = i < m
    kind: tl.constexpr = Z.dtype.element_ty
    gamma, beta, curvature, above, below, low, high, change = _constants(numbers, kind)
    if not begin:
        u = _factor(U, s, i, r, m, rank, row_u, kind)
    distance = tl.zeros((BM, BN), kind)
    price = tl.zeros((BM, BN), kind)
    along = tl.zeros((BM, BN), kind)
    rest = tl.zeros((BM, BN), kind)
    step = 1.0 / gamma
    product = tl.zeros((BM, W), kind)
    base = i.to(tl.int64)[:, None] * n
    left = tl.program_id(1) * per
    for start in range(left, min(left + per, n), BN):
        j = start + tl.arange(0, BN)
        inside = here[:, None] & (j < n)[None, :]
        c = tl.load(C + base + j[None, :], mask=inside, other=0.0)
        up, down = above, below
        if groups == 4:
            more = _more(weights, base + j[None, :], inside, numbers, kind)
            up, down = above + more, below + more
        if begin:
            t = gamma * beta * c
            far = _beyond(t, low, high, inside, groups)
            after = t - _clip(far, gamma * down, gamma * up)
        else:
            known = (r < rank)[:, None] & (j < n)[None, :]
            v = tl.load(Vt + r[:, None] * n + j[None, :], mask=known, other=0.0)
            if kind == tl.float64:
                X = tl.dot(u, v, out_dtype=tl.float64)
            else:
                X = tl.dot(u, v, input_precision="tf32x3")
            z = tl.load(Z + base + j[None, :], mask=inside, other=0.0)
            pull, move = _move(
                X, c, z, gamma, beta, curvature, up, down, low, high, cuts, inside,
                i, j, m, n, groups,
            )  # fmt: skip
            far = X - c
            distance += far * far
            price += _price(X, up, down, low, high, inside, groups)
            along += _along(pull, X, low, high, groups)
            rest += move * move
            after = change * z + (1.0 - change) * X + move
        tl.store(Z + base + j[None, :], after, mask=inside)
        wanted = (j < n)[:, None] & (w < width)[None, :]
        q = tl.load(Q + j[:, None] * row_q + w[None, :], mask=wanted, other=0.0)
        if kind == tl.float64:
            product = tl.dot(after, q.to(tl.float64), product, out_dtype=tl.float64)
        elif precise:
            product = tl.dot(after, q.to(tl.float32), product, input_precision="tf32x3")
        else:
            product = tl.dot(after, q.to(tl.float32), product, input_precision="tf32")
    B += tl.program_id(1).to(tl.int64) * m * W
    tl.store(B + i[:, None] * W + w[None, :], product, mask=here[:, None])
    _store_estimates(
        out, distance, price, along, rest * (step * step), _square_once(s, r, rank)
    )


@triton.jit
def moved_kernel(
    C, Z, weights, X, numbers, cuts, out, m, columns, per,
    groups: tl.constexpr, UNIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    # `advance_kernel` for a point that is stored, without the product
    n = columns * UNIT
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    here = i < m
    kind: tl.constexpr = Z.dtype.element_ty
    gamma, beta, curvature, above, below, low, high, change = _constants(numbers, kind)
    distance = tl.zeros((BM, BN), kind)
    price = tl.zeros((BM, BN), kind)
    along = tl.zeros((BM, BN), kind)
    rest = tl.zeros((BM, BN), kind)
    step = 1.0 / gamma
    base = i.to(tl.int64)[:, None] * n
    left = tl.program_id(1) * per
    for start in range(left, min(left + per, n), BN):
        j = start + tl.arange(0, BN)
        inside = here[:, None] & (j < n)[None, :]
        at = base + j[None, :]
        c = tl.load(C + at, mask=inside, other=0.0)
        z = tl.load(Z + at, mask=inside, other=0.0)
        x = tl.load(X + at, mask=inside, other=0.0)
        up, down = above, below
        if groups == 4:
            more = _more(weights, at, inside, numbers, kind)
            up, down = above + more, below + more
        pull, move = _move(
            x, c, z, gamma, beta, curvature, up, down, low, high, cuts, inside,
            i, j, m, n, groups,
        )  # fmt: skip
        far = x - c
        distance += far * far
        price += _price(x, up, down, low, high, inside, groups)
        along += _along(pull, x, low, high, groups)
        rest += move * move
        tl.store(Z + at, change * z + (1.0 - change) * x + move, mask=inside)
    _store_estimates(out, distance, price, along, rest * (step * step), 0.0)


@triton.jit
def times_kernel(
    Z, V, B, m, columns, width, row_v, per,
    UNIT: tl.constexpr, W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    n = columns * UNIT
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    w = tl.arange(0, W)
    here = i < m
    product = tl.zeros((BM, W), tl.float64)
    left = tl.program_id(1) * per
    for start in range(left, min(left + per, n), BN):
        j = start + tl.arange(0, BN)
        known = (j < n)[:, None] & (w < width)[None, :]
        v = tl.load(V + j.to(tl.int64)[:, None] * row_v + w[None, :], mask=known, other=0.0)
        inside = here[:, None] & (j < n)[None, :]
        z = tl.load(Z + i.to(tl.int64)[:, None] * n + j[None, :], mask=inside, other=0.0)
        product = tl.dot(z.to(tl.float64), v.to(tl.float64), product, out_dtype=tl.float64)
    B += tl.program_id(1).to(tl.int64) * m * W
    tl.store(B + i.to(tl.int64)[:, None] * W + w[None, :], product, mask=here[:, None])


@triton.jit
def transpose_times_kernel(
    Z, V, B, rows, columns, width, row_v, per,
    UNIT: tl.constexpr, W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    # computed as (V'Z)', so that only the narrow block is read across its rows
    m, n = columns * UNIT, rows
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    w = tl.arange(0, W)
    here = i < m
    product = tl.zeros((W, BM), tl.float64)
    left = tl.program_id(1) * per
    for start in range(left, min(left + per, n), BN):
        j = start + tl.arange(0, BN)
        known = (j < n)[None, :] & (w < width)[:, None]
        v = tl.load(V + j.to(tl.int64)[None, :] * row_v + w[:, None], mask=known, other=0.0)
        inside = (j < n)[:, None] & here[None, :]
        z = tl.load(Z + j.to(tl.int64)[:, None] * m + i[None, :], mask=inside, other=0.0)
        product = tl.dot(v.to(tl.float64), z.to(tl.float64), product, out_dtype=tl.float64)
    B += tl.program_id(1).to(tl.int64) * m * W
    tl.store(B + i.to(tl.int64)[None, :] * W + w[:, None], product, mask=here[None, :])


@triton.jit
def whitening_kernel(G, T, least, W: tl.constexpr):
    # Cholesky factor of G, scaled, and its inverse, one column and one row at a time
    i = tl.arange(0, W)
    row, column = i[:, None], i[None, :]
    left = tl.load(G + row * W + column)
    sizes = tl.sum(tl.where(row == column, left, 0.0), axis=0)
    scale = 1.0 / tl.sqrt(tl.maximum(sizes, 2.3e-308))
    left = left * scale[:, None] * scale[None, :]
    inverse = tl.where(row == column, 1.0, 0.0).to(tl.float64)
    smallest = tl.sum(tl.where(i == 0, 1.0, 0.0).to(tl.float64))
    for k in range(W):
        below = tl.sum(tl.where(column == k, left, 0.0), axis=1)
        square = tl.sum(tl.where(i == k, below, 0.0))
        pivot = tl.sqrt(tl.where(square > 0.0, square, 1.0))
        smallest = tl.where(square > 0.0, tl.minimum(smallest, pivot), 0.0)
        below = tl.where(i >= k, below, 0.0) / pivot
        left -= below[:, None] * below[None, :]
        done = tl.sum(tl.where(row == k, inverse, 0.0), axis=0) / pivot
        rest = inverse - tl.where(i > k, below, 0.0)[:, None] * done[None, :]
        inverse = tl.where(row == k, done[None, :], rest)
    tl.store(T + column * W + row, inverse * scale[None, :])
    tl.store(least, smallest)
