"""Where each tensor lies in the arena: how long it lives, what may overwrite it, and how small the arena can be."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqp_tflite.codegen.dense import ITEM
from sqp_tflite.codegen.fused import SAME
from sqp_tflite.codegen.plan import Plan, Step
from sqp_tflite.flatbuffer.graph import Tensor

ALIGNMENT = 8
_MOST_TRIED = 7
"""Buffers of which every order is tried."""
_BYTES = {**ITEM, "uint8": 1, "int32": 4, "int64": 8, "bool": 1}


@dataclass(frozen=True, slots=True)
class Memory:
    """The plan of the arena.

    Attributes:
        size: Bytes of the arena.
        bound: Bytes that live at the same time at most: no plan is smaller.
        offsets: Where each tensor lies, by its index; inputs and outputs of the model are not in it.
        scratch: Where each step's scratch lies; None for steps without.
    """

    size: int
    bound: int
    offsets: Mapping[int, int]
    scratch: tuple[int | None, ...]


@dataclass(slots=True)
class _Buffer:
    tensors: set[int]
    size: int
    first: int
    last: int
    step: int = -1
    """Of a scratch: whose it is."""


def size_of(tensor: Tensor) -> int:
    """Returns the bytes of a tensor in the arena."""
    return tensor.elements * _BYTES.get(tensor.dtype, 8)


def memory(plan: Plan) -> Memory:
    """Returns where everything lies.

    Args:
        plan: The steps.
    """
    buffers = _buffers(plan)
    live = [sum(_rounded(one.size) for one in buffers if one.first <= at <= one.last) for at in range(len(plan.steps))]
    bound = max(live, default=0)
    placed = _best(buffers, bound)
    offsets = {tensor: placed[number] for number, one in enumerate(buffers) for tensor in one.tensors}
    scratch: list[int | None] = [None] * len(plan.steps)
    for number, one in enumerate(buffers):
        if one.step >= 0:
            scratch[one.step] = placed[number]
    size = max((placed[number] + _rounded(one.size) for number, one in enumerate(buffers)), default=0)
    return Memory(size, bound, offsets, tuple(scratch))


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _buffers(plan: Plan) -> list[_Buffer]:
    """Returns what lies in the arena; tensors that may overwrite one another are one buffer."""
    outside = {*plan.graph.inputs, *plan.outputs}
    first = {index: at for at, step in enumerate(plan.steps) for index in step.writes}
    last = dict(first)
    for at, step in enumerate(plan.steps):
        for index in step.reads:
            last[plan.root(index)[0]] = at
    owner: dict[int, _Buffer] = {}
    buffers: list[_Buffer] = []
    for at, step in enumerate(plan.steps):
        for index in step.writes:
            if index in outside:
                continue
            size = size_of(plan.graph.tensors[index])
            held = _overwritten(plan, step, at, index, owner, last)
            if held is not None:
                held.tensors.add(index)
                held.size, held.last = max(held.size, size), max(held.last, last[index])
                owner[index] = held
            else:
                owner[index] = _Buffer({index}, size, at, last[index])
                buffers.append(owner[index])
        if step.kernel is not None and step.kernel.scratch:
            buffers.append(_Buffer(set(), step.kernel.scratch, at, at, at))
    return buffers


def _overwritten(
    plan: Plan, step: Step, at: int, index: int, owner: Mapping[int, _Buffer], last: Mapping[int, int]
) -> _Buffer | None:
    """Returns the buffer of an input that a result may overwrite, None if there is none."""
    if index != step.writes[0]:
        return None
    made = plan.graph.tensors[index]
    kernel = step.kernel
    candidates = [one.tensor for one in step.fused.operands.values() if one.how == SAME]
    if kernel is not None:
        candidates = [one for one in candidates if one not in kernel.reads]
        if kernel.in_place:
            others = {one.tensor for one in step.fused.operands.values()}
            candidates += [one for one in kernel.reads[:1] if one not in others]
    for candidate in candidates:
        holder, begin = plan.root(candidate)
        tensor = plan.graph.tensors[holder]
        buffer = owner.get(holder)
        alone = buffer is not None and buffer.last == at and last[holder] == at and begin == 0
        once = sum(plan.root(one)[0] == holder for one in step.reads) == 1
        if (
            buffer
            and alone
            and once
            and tensor.dtype == made.dtype
            and size_of(made) <= max(buffer.size, size_of(tensor))
        ):
            return buffer
    return None


def _best(buffers: Sequence[_Buffer], bound: int) -> list[int]:
    """Returns the offsets of the smallest plan that was found: by size, by time, and for few buffers every order."""
    numbers = range(len(buffers))
    orders = [
        sorted(numbers, key=lambda n: (-buffers[n].size, buffers[n].first)),
        sorted(numbers, key=lambda n: (buffers[n].first, -buffers[n].size)),
        sorted(numbers, key=lambda n: (-(buffers[n].last - buffers[n].first), -buffers[n].size)),
    ]
    best, least = _placed(buffers, orders[0]), None
    candidates: Sequence[Sequence[int]] = orders
    if len(buffers) <= _MOST_TRIED:
        candidates = [*orders, *itertools.permutations(numbers)]
    for order in candidates:
        offsets = _placed(buffers, order)
        size = max((offsets[n] + _rounded(buffers[n].size) for n in numbers), default=0)
        if least is None or size < least:
            best, least = offsets, size
        if least <= bound:
            break
    return best


def _placed(buffers: Sequence[_Buffer], order: Sequence[int]) -> list[int]:
    """Returns each buffer's lowest offset that is free for as long as it lives, given in an order."""
    offsets = [-1] * len(buffers)
    for number in order:
        one = buffers[number]
        taken = sorted(
            (offsets[other], offsets[other] + _rounded(buffers[other].size))
            for other in range(len(buffers))
            if offsets[other] >= 0 and buffers[other].first <= one.last and one.first <= buffers[other].last
        )
        at = 0
        for begin, end in taken:
            if at + _rounded(one.size) <= begin:
                break
            at = max(at, end)
        offsets[number] = at
    return offsets
