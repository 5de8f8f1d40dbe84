"""Replays many recordings and collects their results. See ``docs/fleet.md``."""

from __future__ import annotations

import argparse
import sys

from .collect import collect, state_of
from .driver import Progress, Resources, in_process, on_ray, run
from .outputs import OutputError
from .plan import FAILURES, Plan, PlanError, make_plan, shown
from .unit import DAMAGED, DONE, FAILED, INTERRUPTED, WRONG, Outcome, find_outcome


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m det_post.fleet", description=__doc__)
    parser.add_argument("recordings", nargs="?", help="folder or URL (fsspec) below which recordings are")
    parser.add_argument("-c", "--config", action="append", default=[], metavar="YAML", help="a parameter file; later ones win")
    parser.add_argument("-p", "--param", action="append", default=[], metavar="KEY:=VALUE")
    parser.add_argument("-o", "--out", required=True, help="folder or URL of the results")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda:N, or cuda:* for every GPU")
    parser.add_argument("--slice-seconds", type=float, default=600.0, metavar="S",
                        help="recordings longer than this are divided; 0: none (default 600)")
    parser.add_argument("--engine", choices=["ray", "process"], default="ray",
                        help="ray, or from this process: one unit at a time, with cuda:* one on each GPU")
    parser.add_argument("--address", help="Ray cluster; default: this machine")
    parser.add_argument("--cpus", type=int, default=1, metavar="N", help="CPU cores and threads of a unit")
    parser.add_argument("--gpus", type=float, default=None, metavar="1/K",
                        help="share of a GPU of a unit (default 0.5 with --device cuda:*, else 0)")
    parser.add_argument("--memory-gb", type=float, default=2.0, metavar="GB", help="memory of a unit")
    parser.add_argument("--scratch-gb", type=float, default=0.0, metavar="GB",
                        help="of Ray's custom resource scratch_gb that a unit takes")
    parser.add_argument("--parquet", action="store_true", help="also writes all boxes as Parquet")
    parser.add_argument("--price-per-hour", type=float, metavar="P", help="of a machine, for the cost line")
    parser.add_argument("--machines", type=int, default=1, help="machines of the cluster, for the cost line")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--plan-only", action="store_true", help="writes plan.json and ends: for other schedulers")
    only.add_argument("--collect-only", action="store_true", help="collects what units of the plan wrote")
    parsed = parser.parse_args(arguments)
    if not parsed.collect_only and not (parsed.recordings and parsed.config):
        parser.error("recordings and --config are required")
    return parsed


def main(arguments: list[str] | None = None) -> int:
    """Plans, runs and collects; the exit code is 0 when all units are done, 3 when recordings
    are damaged, 1 when results are missing, 2 for a wrong configuration, 4 after Ctrl-C."""
    parsed = _arguments(arguments)
    try:
        if parsed.collect_only:
            plan = Plan.read(parsed.out)
        else:
            plan = make_plan(
                parsed.recordings,
                parsed.out,
                parsed.config,
                parameters=parsed.param,
                device=parsed.device,
                threads=parsed.cpus,
                slice_seconds=parsed.slice_seconds,
            )
            plan.write()
    except PlanError as error:
        print(error, file=sys.stderr)
        return WRONG
    if not parsed.collect_only:
        _warn(plan)
    if parsed.plan_only:
        print(f"{len(plan.units)} units in {plan.out}/plan.json")
        return DONE
    outcomes: dict[str, Outcome] = {}
    if parsed.collect_only:
        found = ((unit, find_outcome(plan, unit)) for unit in plan.units)
        outcomes = {unit.folder: outcome for unit, outcome in found if outcome}
    elif code := _run(plan, parsed, outcomes):
        return code
    try:
        reasons = collect(plan, outcomes, boxes=parsed.parquet)
    except OutputError as error:
        print(error, file=sys.stderr)
        return WRONG
    for reason in reasons:
        print(reason, file=sys.stderr)
    code = _report(plan, outcomes)
    return FAILED if reasons else code


def _warn(plan: Plan) -> None:
    """Names what is unusual about the recordings before they are replayed."""
    for note in plan.notes:
        print(note, file=sys.stderr)
    for one in plan.refused:
        print(f"refused: {shown(one.recording)} {shown(one.reason)}", file=sys.stderr)


def _run(plan: Plan, parsed: argparse.Namespace, outcomes: dict[str, Outcome]) -> int:
    gpus = parsed.gpus
    if gpus is None:
        gpus = 0.5 if parsed.device.startswith("cuda") else 0.0
    resources = Resources(parsed.cpus, gpus, int(parsed.memory_gb * 2**30), parsed.scratch_gb)
    progress = Progress(plan)

    def finished(outcome: Outcome) -> None:
        outcomes[outcome.unit.folder] = outcome
        progress.add(outcome)

    engine = in_process if parsed.engine == "process" else on_ray(resources, parsed.address)
    try:
        run(plan, engine, finished)
    except PlanError as error:
        print(error, file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print(f"{progress.line()}; interrupted, the same command continues", file=sys.stderr)
        return INTERRUPTED
    print(progress.line(), file=sys.stderr)
    print(progress.cost(parsed.machines, parsed.price_per_hour), file=sys.stderr)
    return DONE


def _report(plan: Plan, outcomes: dict[str, Outcome]) -> int:
    """Names the units that are not whole, and the recordings that have none."""
    code = FAILED if plan.refused else DONE
    for unit in plan.units:
        outcome = outcomes.get(unit.folder)
        state = state_of(outcome)
        if state == "done":
            continue
        code = FAILED if state != "damaged" or code == FAILED else DAMAGED
        last = outcome.log.splitlines()[-1] if outcome and outcome.log else ""
        print(f"{state}: {unit.folder}{': ' if last else ''}{last}", file=sys.stderr)
    if plan.refused:
        print(f"refused: {len(plan.refused)} recordings, listed in {FAILURES}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
