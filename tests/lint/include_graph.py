#!/usr/bin/env python3
"""The include graph: no arrow upward between folders, no circle of header/source pairs.

    tests/lint/include_graph.py            the test: exit status 1 when there is one
    tests/lint/include_graph.py --print    also which folder and room includes which, how often

A node is a unit: `x.h` with `x.cc` or `x.cu`. Its arrows are the includes of all of its files, so a
source that needs the header of a unit which includes its own header is in a circle with it,
although it compiles.
"""
import argparse
import collections
import os
import sys

import layers
from tree import Problem, Tree


def unit_of(path):
    return os.path.splitext(path)[0]


def units(tree):
    """{unit: {other unit: (path, line) of the first include of it}}"""
    graph = {}
    for path in tree.cpp_files():
        arrows = graph.setdefault(unit_of(path), {})
        for line, header in tree.source(path).includes():
            if header in tree.file_set and unit_of(header) != unit_of(path):
                arrows.setdefault(unit_of(header), (path, line))
    return graph


def circles(graph):
    """The strongly connected components of more than one node (Tarjan), each sorted."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        while work:
            node, targets = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            target = next((target for target in targets if target in graph), None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    found.append(_pop_component(node, stack, on_stack))
            elif target not in index:
                work.append((target, iter(graph[target])))
            elif target in on_stack:
                low[node] = min(low[node], index[target])
    return sorted(component for component in found if len(component) > 1)


def _pop_component(node, stack, on_stack):
    component = []
    while not component or component[-1] != node:
        component.append(stack.pop())
        on_stack.discard(component[-1])
    return sorted(component)


def check(tree):
    """One problem per circle, at the first include that is part of it."""
    graph, problems = units(tree), []
    for circle in circles(graph):
        inside = set(circle)
        arrows = [f"{unit} -> {', '.join(sorted(set(graph[unit]) & inside))}" for unit in circle]
        path, line = next(place for target, place in graph[circle[0]].items() if target in inside)
        problems.append(Problem(path, line, "a circle of includes: " + "; ".join(arrows)))
    return problems


def show(tree):
    """The arrows between folders and between rooms, with how many includes each stands for."""
    for name, depth in (("folders", 1), ("rooms", 2)):
        arrows = collections.Counter()
        for path in tree.cpp_files():
            if layers.is_test(path) or path.split("/")[0] in layers.AROUND:
                continue
            for _, header in tree.source(path).includes():
                one, other = _room(path, depth), _room(header, depth)
                if layers.folder_of(header) and one != other:
                    arrows[one, other] += 1
        print(f"{name}:")
        for one in sorted({one for one, _ in arrows}):
            targets = [f"{other} ({count})" for (start, other), count in sorted(arrows.items())
                       if start == one]
            print(f"  {one} -> {', '.join(targets)}")
        both = [f"{one} <-> {other}" for one, other in sorted(arrows)
                if one < other and (other, one) in arrows]
        print(f"  both ways: {', '.join(both) or 'none'}")


def _room(path, depth):
    if path.startswith(layers.MESSAGES):
        return "proto"
    return "/".join(path.split("/")[:-1][:depth])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=os.environ.get("TUTTI_SOURCE_DIR")
                        or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("--print", action="store_true", help="show the graph of folders and rooms")
    options = parser.parse_args()
    tree = Tree(options.root)
    if options.print:
        show(tree)
    upward = layers.check(tree)
    rings = check(tree)
    for problem in upward + rings:
        print(problem)
    print(f"include graph: {len(units(tree))} units, {len(upward)} arrows upward, "
          f"{len(rings)} circles")
    return 1 if upward or rings else 0


if __name__ == "__main__":
    sys.exit(main())
