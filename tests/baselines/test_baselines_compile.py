"""``torch.compile(fullgraph=True)``: one graph, forward and backward, equal to eager, with the state it leaves."""

import warnings

import pytest
import torch
from baseline_cases import CASES

from ncmi.baselines import BASELINES

# Each baseline in its setting with the most branches.
NAMES = [
    "ce ignored sum",
    "label-smoothing weighted ignored",
    "focal gamma 0.5 alpha",
    "poly1 weighted ignored",
    "squentropy weighted soft",
    "square weighted ignored",
    "anticlass weighted soft",
    "supcon inside ignored",
    "opl mean_abs",
    "cmic",
    "cmic soft",
    "center",
    "contrastive-center",
]


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()
    with warnings.catch_warnings():
        # The compiler's own imports warn about things that are not ours.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield
    torch.compiler.reset()


def test_every_baseline_is_compiled():
    assert {CASES[name].name for name in NAMES} == set(BASELINES)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_equals_eager(name):
    case = CASES[name]
    eager, other = case.build(dtype=torch.float32), case.build(dtype=torch.float32)
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager")
    for step in range(3):
        targets = case.targets(seed=step)
        targets = targets.float() if case.soft else targets
        pair = [tuple(x.float().requires_grad_() for x in case.inputs(seed=step)) for _ in range(2)]
        with torch.compiler.set_stance("fail_on_recompile" if step else "default"):
            values = eager(*pair[0], targets), compiled(*pair[1], targets)
        torch.testing.assert_close(values[1], values[0], rtol=1e-5, atol=1e-6)
        for value in values:
            value.backward()
        for expected, found in zip(*pair, strict=True):
            torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(other.state_dict(), eager.state_dict(), rtol=1e-5, atol=1e-6)
