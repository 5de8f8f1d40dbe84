"""Replays of many recordings: a unit of work that is safe to repeat, and its drivers.

``python -m det_post.fleet DRIVES --config FILE --out FOLDER`` plans the units, runs them on Ray or
in this process, and collects their results. ``python -m det_post.fleet.unit`` runs one unit of a
plan without Ray, for a Kubernetes Indexed Job or a Slurm array. See ``docs/fleet.md``.
"""

from .plan import Plan, Unit, make_plan
from .unit import Outcome, run_unit

__all__ = ["Outcome", "Plan", "Unit", "make_plan", "run_unit"]
