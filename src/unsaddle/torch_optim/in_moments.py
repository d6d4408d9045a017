"""The search of `Neon.probe(objective)`: in the metric of the base optimizer's second moments, if there are any."""

from __future__ import annotations

from torch import Tensor
from torch.optim import Optimizer

from unsaddle.curvature.extract import answer
from unsaddle.curvature.posed import posed
from unsaddle.curvature.question import Question
from unsaddle.curvature.result import Curvature
from unsaddle.metric.given import has_moments
from unsaddle.objective import Objective


def answered(objective: Objective, x: Tensor, question: Question, base: Optimizer) -> tuple[Curvature, Tensor]:
    """The answer in the model's own parameters, and the point where L1 and the gradient of the answer were seen.

    Adam, AdamW, RMSprop and Adagrad know how large parameters are. With a γ of the user's, and with other optimizers,
    the search goes without. The direction is not measured again: fresh samples do that. Probes on single batches go
    without, too: what turns their direction from batch to batch needs L1 of F itself.
    """
    asked = posed(objective, x, question, base if question.gamma is None and has_moments(base) else None)
    return asked.along(answer(asked.objective, asked.x, asked.question)), asked.x
