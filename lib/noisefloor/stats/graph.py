"""Who may spend how much alpha: the fallback graph of one family of comparisons.

A family is one metric of one workload: several arms, each with thread counts and, where there are
two or more, a joint effect over them. Bretz, Maurer, Brannath and Posch (Statistics in Medicine 28,
2009): a rejected hypothesis passes its share on along the edges of the graph."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

ALPHA = 0.05  # of a family
HEADLINE = 0.8  # of an arm's share, for its joint effect; its thread counts divide the rest
Name = tuple[str, Any]  # (arm, threads); threads: a number, "" or JOINT
JOINT = None  # the place of the joint effect among an arm's thread counts
TRICKLE = 1e-9  # weight of an edge that is used only when no other is left


class Graph:
    """The shares of a family while its hypotheses are rejected one after the other.

    arms: {arm: thread counts}. Hypotheses are (arm, threads), the joint effect (arm, JOINT)."""

    def __init__(self, arms: Mapping[str, Sequence[Any]], alpha: float = ALPHA) -> None:
        self.shares, self._edges = {}, {}  # type: dict[Name, float], dict[Name, dict[Name, float]]
        heads = [(arm, JOINT if len(threads) > 1 else threads[0]) for arm, threads in arms.items()]
        for (arm, threads), head in zip(arms.items(), heads, strict=True):
            own = alpha / len(arms)
            others = [h for h in heads if h != head]
            if len(threads) == 1:
                self._add(head, own, dict.fromkeys(others, 1.0))
                continue
            members = [(arm, t) for t in threads]
            self._add(head, HEADLINE * own, dict.fromkeys(members, 1.0), others)
            for m in members:
                siblings = dict.fromkeys((x for x in members if x != m), 1.0)
                self._add(m, (1 - HEADLINE) * own / len(members), siblings, heads)

    def _add(
        self, name: Name, share: float, strong: Mapping[Name, float], weak: Iterable[Name] = ()
    ) -> None:
        """A hypothesis whose share goes to `strong` in parts, to `weak` when none of those is left."""
        total = sum(strong.values())
        edges = {k: w / total for k, w in strong.items()}
        for k in weak:
            edges[k] = edges.get(k, 0.0) + TRICKLE
        self.shares[name], self._edges[name] = share, edges

    def reject(self, name: Name) -> None:
        """Take a hypothesis out and pass its share on."""
        share, gone = self.shares.pop(name), self._edges.pop(name)
        for j in self.shares:
            self.shares[j] += share * gone.get(j, 0.0)
        renewed = {}
        for j, edges in self._edges.items():
            back = edges.get(name, 0.0)
            left = 1 - back * gone.get(j, 0.0)
            targets = [k for k in {**edges, **gone} if k not in (j, name)]
            new = {k: edges.get(k, 0.0) + back * gone.get(k, 0.0) for k in targets}
            scale = left if left > TRICKLE / 2 else sum(new.values())
            renewed[j] = {k: w / scale for k, w in new.items() if w > 0} if scale > 0 else {}
        self._edges = renewed


def sweep(graph: Graph, passes: Callable[[Name, float], bool]) -> list[Name]:
    """Reject whatever can be rejected now; returns the hypotheses in the order of their rejection.

    passes: function (hypothesis, share) -> whether it is rejected with that share."""
    out = []  # type: list[Name]
    while True:
        name = next((h for h, share in graph.shares.items() if passes(h, share)), None)
        if name is None:
            return out
        graph.reject(name)
        out.append(name)
