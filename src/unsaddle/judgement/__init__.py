"""Where evidence becomes a verdict: minimum, saddle, not stationary or undecided."""

from unsaddle.judgement.verdict import Verdict, is_minimum

__all__ = ["Verdict", "is_minimum"]
