"""tinygrad's passes from a scheduled kernel to lines that a renderer writes: those of release 0.14.0, guarded.

Left out are passes that only change data: its simplifier on floats and integers, the sums of constants made products,
choices moved into loads, divisions made multiplications, casts that were found needless. Reductions are own.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from tinygrad.codegen import (
    build_range_map,
    devectorizer2,
    ew_devectorizer,
    expander2,
    indexing_simplify,
    line_rewrite,
    linearize,
    memory_coalescing,
    pm_add_control_flow,
    pm_add_loads,
    pm_cast_weak,
    pm_casted_consts,
    pm_commit_weak,
    pm_expand_broadcast,
    pm_linearize_cleanups,
    pm_lower_index_dtype,
    pm_move_gates_from_index,
    pm_number_params,
    pm_split_ends,
)
from tinygrad.codegen.decomp.op import get_simplifying_rewrite_patterns
from tinygrad.codegen.late.linearizer import CFGContext
from tinygrad.codegen.opt import Opt, OptOps
from tinygrad.codegen.opt.postrange import Scheduler
from tinygrad.codegen.simplify import pm_flatten_range
from tinygrad.renderer import Renderer
from tinygrad.uop.movement import mop_cleanup
from tinygrad.uop.ops import Ops, PatternMatcher, graph_rewrite
from tinygrad.uop.symbolic import pm_clean_up_group_sink, pm_remove_invalid, sym, symbolic_simple

from support.oracles.guarded.guard import Guard, Together, is_index
from support.oracles.guarded.reductions import accumulators, unrolling

_simple, _sym, _indexing = Guard(symbolic_simple), Guard(sym), Guard(indexing_simplify)
#: The gate of an index becomes that of its load. The matcher's last two rules would cast what a WHERE chooses instead
#: to the type in memory, and lose it if it does not fit.
_gates = PatternMatcher(pm_move_gates_from_index.patterns[:-2])


def lines(kernel: Any, renderer: Renderer, opts: Sequence[Opt] = ()) -> list[Any]:
    """A kernel in the order in which it is written; raises KernelOptError for opts that it does not admit."""
    # of a vector in memory tinygrad asks the shape, and for that simplifies its index, data and all
    indices = [place for u in kernel.toposort() if u.op is Ops.INDEX for place in u.src[1:]]
    renderer.supports_float4 = all(map(is_index, indices))
    scheduler = Scheduler(kernel, renderer)
    for opt in opts:
        scheduler.apply_opt(opt)
    sink = scheduler.get_optimized_ast(kernel.arg.name)
    sink = graph_rewrite(sink, Together(_sym, pm_flatten_range))
    sink = graph_rewrite(sink, Together(unrolling, expander2), ctx=build_range_map(sink))
    sink = graph_rewrite(sink, Together(mop_cleanup, accumulators, pm_clean_up_group_sink), ctx=[0])
    sink = graph_rewrite(sink, Together(_simple, pm_expand_broadcast, pm_add_loads))
    sink = graph_rewrite(sink, Together(_simple, devectorizer2, _indexing), ctx=renderer)
    sink = graph_rewrite(sink, _sym)
    sink = memory_coalescing(sink, renderer)
    sink = graph_rewrite(sink, Together(_simple, ew_devectorizer), bottom_up=True)
    sink = graph_rewrite(sink, Together(_sym, _indexing))
    # from here on indices are machine integers, no longer told from data: nothing is simplified any more
    sink = graph_rewrite(sink, pm_lower_index_dtype, ctx={})
    decompositions = get_simplifying_rewrite_patterns(tuple(renderer.code_for_op))
    sink = graph_rewrite(sink, Together(pm_commit_weak, decompositions), ctx=renderer)
    sink = graph_rewrite(sink, _gates)
    last = Together(pm_commit_weak, pm_cast_weak, decompositions, pm_split_ends, pm_remove_invalid)
    sink = graph_rewrite(sink, last, ctx=renderer)
    sink = graph_rewrite(sink, pm_casted_consts, walk=True)
    sink = graph_rewrite(sink, pm_add_control_flow, ctx=CFGContext(sink), bottom_up=True)
    last_slot = max(u.arg.slot for u in sink.toposort() if u.op is Ops.PARAM)
    sink = graph_rewrite(sink, pm_number_params, ctx=[last_slot + 1], walk=True)
    return list(line_rewrite(linearize(sink), pm_linearize_cleanups))


def order_preserving(kernel: Any, renderer: Renderer, random: Random) -> list[Opt]:
    """Up to four opts, drawn at random: parts of output loops side by side, steps of an innermost loop of a reduction
    one after the other in one go."""
    scheduler, chosen = Scheduler(kernel, renderer), list[Opt]()
    reductions = [r for r in kernel.toposort() if r.op is Ops.REDUCE and len(r.src) > 1]
    ends = {max(r.src[1:], key=lambda loop: loop.arg) for r in reductions}
    for kind in random.choice(((OptOps.UPCAST,) * 3, (OptOps.UNROLL,), (OptOps.UPCAST, OptOps.UPCAST, OptOps.UNROLL))):
        is_output = kind is OptOps.UPCAST
        axes = scheduler.upcastable_dims if is_output else scheduler.unrollable_dims
        possible = [
            Opt(kind, axis if is_output else number, amount)
            for number, axis in enumerate(axes)
            for amount in range(2, 9)
            if scheduler.full_shape[axis] % amount == 0 and (is_output or scheduler.rngs[axis] in ends)
        ]
        if possible:
            chosen.append(random.choice(possible))
            scheduler.apply_opt(chosen[-1])
    return chosen
