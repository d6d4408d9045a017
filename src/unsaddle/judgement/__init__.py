"""Where evidence becomes a verdict: minimum, saddle, not stationary or undecided."""

from unsaddle.judgement.judge import Kind
from unsaddle.judgement.minimum import is_minimum
from unsaddle.judgement.verdict import Verdict

__all__ = ["Kind", "Verdict", "is_minimum"]
