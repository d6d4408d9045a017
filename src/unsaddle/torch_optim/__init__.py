"""`Neon`: any torch optimizer, promoted. `CurvatureMonitor`: its step beside the curvature."""

from unsaddle.torch_optim.events import Event
from unsaddle.torch_optim.monitor import CurvatureMonitor
from unsaddle.torch_optim.monitor_row import CurvatureRow
from unsaddle.torch_optim.neon import Neon

__all__ = ["CurvatureMonitor", "CurvatureRow", "Event", "Neon"]
