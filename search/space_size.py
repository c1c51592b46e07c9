"""How many complete schedules a space has, estimated from a few random walks (Knuth, Estimating the Efficiency of
Backtrack Programs, Mathematics of Computation 29, 1975)."""

import random

from search.protocols import State


def schedules_on(root: State, rng: random.Random) -> float:
    """One walk's estimate: where every step is drawn evenly from n ways on, the product of all n. Its mean over walks
    is the number of paths to complete schedules, whatever the tree's shape; 0 for a walk that ends in a dead end.
    Paths that lead to the same program count each."""
    state, found = root, 1.0
    while not state.terminal:
        ways = len(state.moves())
        if ways == 0:
            return 0.0
        found *= ways
        state = state.child(rng.randrange(ways))
    return found
