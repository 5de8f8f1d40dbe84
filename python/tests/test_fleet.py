"""Fleet runs: the same results as single replays, whatever dies on the way."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow")
fsspec = pytest.importorskip("fsspec", reason="no fsspec")

import pyarrow.parquet as pq  # noqa: E402

from det_post import Result, _program  # noqa: E402
from det_post.fleet import __main__ as fleet  # noqa: E402
from det_post.fleet import unit as unit_module  # noqa: E402
from det_post.fleet import outputs  # noqa: E402
from det_post.fleet.plan import PlanError, make_plan  # noqa: E402
from det_post.fleet.spans import MAX_SLICES, Interval, divide, intervals_of  # noqa: E402
from det_post.fleet.stores import Store  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CONFIG = str(ROOT / "config/demo.param.yaml")
SECONDS = 0.35


def det_post(*arguments: object, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    command = [str(_program.path()), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=_program.environment())
    assert done.returncode in codes, f"{command}: {done.returncode}\n{done.stderr}"
    return done


@pytest.fixture(scope="module", autouse=True)
def working_directory() -> object:
    """The demo's configuration names its networks relative to the repository."""
    before = Path.cwd()
    os.chdir(ROOT)
    yield
    os.chdir(before)


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four recordings, one of them cut."""
    folder = tmp_path_factory.mktemp("drives")
    for seed in range(4):
        out = folder / f"town/{seed}" if seed else folder / "first"
        det_post("simulate", "--seed", 9101 + seed, "--seconds", SECONDS, "--out", out)
        (out / ".det_post.jsonl").unlink()
    cut = next((folder / "town/3").glob("*.mcap"))
    os.truncate(cut, cut.stat().st_size * 2 // 3)
    return folder


NAMES = ["first", "town/1", "town/2", "town/3"]
CODES = [0, 0, 0, 3]


@pytest.fixture(scope="module")
def serial(drives: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings replayed one after the other by only the program."""
    out = tmp_path_factory.mktemp("serial")
    for name, code in zip(NAMES, CODES):
        options = ["--config", CONFIG, "--device", "cpu", "--out", out / name]
        det_post("replay", drives / name, *options, codes=(code,))
    return out


def results(folder: Path, name: str) -> dict[str, bytes]:
    """What does not depend on times."""
    files = [folder / name / "detections.jsonl", *sorted((folder / name / "detections").iterdir())]
    found = {path.name: path.read_bytes() for path in files}
    report = json.loads((folder / name / "report.json").read_text())
    channels = {
        name: {key: value for key, value in channel.items() if key not in ("stages_ms", "bytes_per_frame")}
        for name, channel in report["channels"].items()
    }
    found["report.json"] = json.dumps([channels, report["num_messages"]]).encode()
    return found


def assert_same(out: Path, serial: Path) -> None:
    for name in NAMES:
        assert results(out, name) == results(serial, name), name


def run_fleet(drives: Path | str, out: Path | str, *more: str) -> int:
    return fleet.main([str(drives), "--config", CONFIG, "--device", "cpu", "--out", str(out), *more])


def states(out: Path) -> list[tuple[str, str, int]]:
    rows = pq.read_table(out / "manifest.parquet").to_pylist()
    return [(row["name"], row["state"], row["attempt"]) for row in rows]


def ray_or_skip() -> None:
    ray = pytest.importorskip("ray", reason="no ray")
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    # Workers are nice by default, and starve where anything else runs.
    os.environ.setdefault("RAY_worker_niceness", "0")
    from det_post.fleet.driver import Resources, _start

    try:
        _start(ray, Resources(), None)
    except Exception as error:
        pytest.skip(f"ray does not start: {error}")


def test_a_worker_that_dies_costs_an_attempt_and_nothing_else(drives: Path, serial: Path, tmp_path: Path) -> None:
    ray_or_skip()
    import ray

    out = tmp_path / "out"
    killed: list[tuple[int, int]] = []
    watcher = threading.Thread(target=kill_first_worker, args=(out, killed))
    watcher.start()
    try:
        assert run_fleet(drives, out, "--parquet", "--price-per-hour", "3") == 3
        watcher.join()
        assert killed, "no worker was killed"
        assert_same(out, serial)
        assert [state for _, state, _ in states(out)] == ["done", "done", "done", "damaged"]
        wait_for_end(killed[0][1])
        check_tables(out, serial)
        check_eval(out, serial, drives)
        # Again: nothing is done. Without one record: only that unit.
        records = {name: (out / name / "unit.json").stat().st_mtime_ns for name in NAMES}
        assert run_fleet(drives, out) == 3
        assert records == {name: (out / name / "unit.json").stat().st_mtime_ns for name in NAMES}
        (out / "town/1/unit.json").unlink()
        assert run_fleet(drives, out) == 3
        assert_same(out, serial)
        after = {name: (out / name / "unit.json").stat().st_mtime_ns for name in NAMES}
        assert [name for name in NAMES if after[name] != records[name]] == ["town/1"]
        assert list(out.rglob("det_post.partial")) == [], "files of an attempt are left"
    finally:
        ray.shutdown()


def test_units_are_spread_over_the_devices(
    drives: Path, serial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from det_post.fleet import driver

    monkeypatch.setattr(driver, "devices_of", lambda device: [device, device])
    out = tmp_path / "out"
    assert run_fleet(drives, out, "--engine", "process") == 3
    assert_same(out, serial)
    rows = pq.read_table(out / "manifest.parquet").to_pylist()
    assert [(row["name"], row["device"]) for row in rows] == [(name, "cpu") for name in NAMES]


def test_every_gpu_is_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from det_post.fleet.driver import devices_of

    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-a)'\necho 'GPU 1: NVIDIA H200 (UUID: GPU-b)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert devices_of("cuda:*") == ["cuda:0", "cuda:1"]
    assert (devices_of("cpu"), devices_of("cuda:3")) == (["cpu"], ["cuda:3"])
    tool.write_text("#!/bin/sh\nexit 9\n")
    with pytest.raises(PlanError, match="not known"):
        devices_of("cuda:*")


def test_gpus_of_a_plan_are_those_that_a_unit_can_take(
    drives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from det_post.fleet.driver import Resources, on_ray

    plan = make_plan(str(drives / "first"), str(tmp_path / "out"), [CONFIG], device="cuda")
    assert plan.device == "cuda:*"
    taken: list[str] = []

    def replay(plan: object, unit: object, scratch: object, part: object, device: str) -> object:
        taken.append(device)
        return unit_module.Outcome(plan.units[0], 1)  # type: ignore[attr-defined]

    monkeypatch.setattr(unit_module, "_replay", replay)
    unit_module.run_unit(plan, plan.units[0])
    unit_module.run_unit(plan, plan.units[0], device="cuda:3")
    assert taken == ["cuda:0", "cuda:3"]
    second = make_plan(str(drives / "first"), str(tmp_path / "out"), [CONFIG], device="cuda:1")
    with pytest.raises(PlanError, match="Ray chooses the GPU"):
        on_ray(Resources(gpus=0.5))(second, second.units, lambda outcome: None)


def test_a_replay_that_kills_its_worker_is_tried_four_times(
    drives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Workers have the environment in which Ray starts.
    monkeypatch.setenv("DET_POST_PROGRAM", program(tmp_path, f"echo >> {tmp_path}/starts; kill -9 $PPID"))
    ray_or_skip()
    import ray

    try:
        assert run_fleet(drives / "first", tmp_path / "out") == 1
    finally:
        ray.shutdown()
    assert states(tmp_path / "out") == [("first", "interrupted", 1)]
    assert (tmp_path / "starts").read_text().count("\n") == 4


def program(folder: Path, replay: str) -> str:
    """The program with shell commands in place of its replay."""
    path = folder / "program"
    path.write_text(f'#!/bin/sh\n[ "$1" = replay ] || exec {_program.path()} "$@"\n{replay}\n')
    path.chmod(0o755)
    return str(path)


def test_an_interrupt_ends_the_run_with_its_replay(drives: Path, tmp_path: Path) -> None:
    """The keyboard signals the whole group of processes."""
    environment = {**os.environ, "DET_POST_PROGRAM": program(tmp_path, f"echo >> {tmp_path}/starts; exec sleep 60")}
    command = [sys.executable, "-m", "det_post.fleet", str(drives), "--config", CONFIG]
    running = subprocess.Popen(
        [*command, "--device", "cpu", "--out", str(tmp_path / "out"), "--engine", "process"],
        env=environment,
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        end = time.monotonic() + 60.0
        while not (tmp_path / "starts").exists() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.2)
        os.killpg(running.pid, signal.SIGINT)
        _, log = running.communicate(timeout=30.0)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert (running.returncode, log.count("Traceback")) == (4, 0), log
    assert (tmp_path / "starts").read_text().count("\n") == 1


def kill_first_worker(out: Path, killed: list[tuple[int, int]]) -> None:
    """Kills the Ray worker of the first replay that has begun to write."""
    end = time.monotonic() + 120.0
    while time.monotonic() < end:
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            try:
                command = (process / "cmdline").read_bytes().split(b"\0")
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if b"replay" in command and any(str(out).encode() in part for part in command):
                if not any(out.rglob("det_post.partial")):
                    continue
                os.kill(parent, signal.SIGKILL)
                killed.append((parent, int(process.name)))
                return
        time.sleep(0.01)


def wait_for_end(pid: int) -> None:
    """A replay does not outlive its worker."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state in "ZX":
            return
        time.sleep(0.1)
    pytest.fail(f"the replay {pid} of the killed worker lives")


def check_tables(out: Path, serial: Path) -> None:
    """Every box is a row, in order."""
    boxes_2d, boxes_3d = (pq.read_table(out / f"detections_{n}d.parquet").to_pylist() for n in (2, 3))
    expected_2d, expected_3d = [], []
    for name in NAMES:
        for line in (serial / name / "detections.jsonl").read_text().splitlines():
            frame = json.loads(line)
            expected_2d += [(name, frame["stamp_ns"], box) for box in frame.get("detections_2d") or []]
            expected_3d += [(name, frame["stamp_ns"], box) for box in frame.get("detections_3d") or []]
    assert len(boxes_2d) == len(expected_2d) > 0 and len(boxes_3d) == len(expected_3d) > 0
    for row, (name, stamp_ns, box) in zip(boxes_2d, expected_2d):
        assert (row["recording"], row["stamp_ns"], row["class_name"]) == (name, stamp_ns, box["class_name"])
        assert [row[key] for key in ("x1", "y1", "x2", "y2")] == pytest.approx(box["box"], rel=1e-6)
    for row, (name, stamp_ns, box) in zip(boxes_3d, expected_3d):
        assert (row["recording"], row["stamp_ns"], row["class_id"]) == (name, stamp_ns, box["class_id"])
        assert [row[key] for key in ("x", "y", "z")] == pytest.approx(box["center"], rel=1e-6)
        assert (row["velocity_x"] is None) == (box["velocity"] is None)


def check_eval(out: Path, serial: Path, drives: Path) -> None:
    one = det_post(
        "eval",
        "--detections", *(serial / name for name in NAMES),
        "--truth", *(drives / name for name in NAMES),
        codes=(3,),
    )
    assert det_post("eval", "--drives", out / "drives.jsonl", codes=(3,)).stdout == one.stdout
    assert "mAP" in one.stdout


def test_a_store_without_renames(drives: Path, serial: Path, tmp_path: Path) -> None:
    """``memory://`` is an object store in this process."""
    memory = fsspec.filesystem("memory")
    memory.put(str(drives), "/drives", recursive=True)
    try:
        assert run_fleet("memory://drives", "memory://results", "--engine", "process", "--parquet") == 3
        memory.get("/results", str(tmp_path / "results"), recursive=True)
        assert_same(tmp_path / "results", serial)
        assert len(states(tmp_path / "results")) == 4
        # A folder whose record is gone is not complete: it is made again. Other files stay.
        memory.rm("/results/first/unit.json")
        memory.pipe_file("/results/first/mine", b"not of det_post")
        before = memory.modified("/results/first/report.json")
        assert run_fleet("memory://drives", "memory://results", "--engine", "process") == 3
        assert memory.exists("/results/first/unit.json") and memory.exists("/results/first/mine")
        assert memory.modified("/results/first/report.json") > before
        # A file that was changed, or is of a user, is refused by its name.
        memory.rm("/results/first/unit.json")
        memory.pipe_file("/results/first/report.json", b"{}")
        memory.pipe_file("/results/town/1/images/holiday.png", b"mine")
        memory.rm("/results/town/1/unit.json")
        assert run_fleet("memory://drives", "memory://results", "--engine", "process") == 1
        rows = {row["name"]: row for row in pq.read_table("results/manifest.parquet", filesystem=memory).to_pylist()}
        assert "/results/first/report.json was changed after det_post wrote it" in rows["first"]["log"]
        assert "holiday.png was not written by det_post" in rows["town/1"]["log"]
        assert (rows["town/2"]["state"], rows["town/3"]["state"]) == ("done", "damaged")
        assert memory.cat_file("/results/first/report.json") == b"{}"
        assert memory.cat_file("/results/town/1/images/holiday.png") == b"mine"
        # So are the files of the run.
        memory.pipe_file("/results/drives.jsonl", b"my drives")
        assert run_fleet("memory://drives", "memory://results", "--engine", "process") == 2
        assert memory.cat_file("/results/drives.jsonl") == b"my drives"
    finally:
        memory.rm("/", recursive=True)


def test_slices_join_and_a_unit_runs_by_itself(drives: Path, serial: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    slicing = ["--slice-seconds", str(SECONDS / 2.5), "--plan-only"]
    assert run_fleet(drives / "first", out, *slicing) == 0
    assert len(json.loads((out / "plan.json").read_text())["units"]) > 2
    num_units = len(json.loads((out / "plan.json").read_text())["units"])
    for index in range(num_units):
        environment = {**os.environ, "JOB_COMPLETION_INDEX": str(index)}
        command = [sys.executable, "-m", "det_post.fleet.unit", str(out)]
        subprocess.run(command, env=environment, check=True, cwd=tmp_path)
    assert unit_module.main([str(out), "--index", str(num_units)]) == 2
    assert fleet.main(["--out", str(out), "--collect-only"]) == 0
    assert (out / "first/detections.jsonl").read_bytes() == (serial / "first/detections.jsonl").read_bytes()


def test_slices_replace_the_result_of_a_whole_recording(drives: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    town = out / "first"

    def run(slice_seconds: float, threshold: float) -> tuple[bytes, int]:
        options = ["--engine", "process", "--slice-seconds", str(slice_seconds)]
        assert run_fleet(drives / "first", out, *options, "-p", f"camera.score_threshold:={threshold}") == 0
        result = Result(town)
        channels = result.report["channels"]
        assert len(list(result.frames())) == sum(channel["frames_out"] for channel in channels.values())
        num = sum(channel["detections"] for channel in channels.values())
        assert len(result.detections()) == num
        return (town / "detections.jsonl").read_bytes(), num

    whole, num_whole = run(0.0, 0.3)
    joined, num_joined = run(SECONDS / 2.5, 0.9)
    assert num_joined < num_whole and joined != whole
    assert not (town / "unit.json").exists() and not (town / "detections").exists()
    assert run(0.0, 0.3) == (whole, num_whole)
    assert (town / "unit.json").exists() and (town / "detections").exists()


def test_a_recording_without_a_byte_fails_by_itself(drives: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.mcap").write_bytes(next((drives / "first").glob("*.mcap")).read_bytes())
    (folder / "empty.mcap").touch()
    assert run_fleet(folder, tmp_path / "out", "--engine", "process") == 1
    assert [state for _, state, _ in states(tmp_path / "out")] == ["done", "failed"]
    assert "is empty" in (tmp_path / "out/failures.jsonl").read_text()


def test_the_plan_names_every_file_by_an_absolute_path(
    drives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my #1: run"
    (folder / "cal").mkdir(parents=True)
    (folder / "models").symlink_to(ROOT / "models")
    cameras = [f"cal/{index}.yaml" for index in range(6)]
    for camera in cameras:
        (folder / camera).write_text("")
    monkeypatch.chdir(folder)
    plan = make_plan(str(drives / "first"), str(tmp_path / "out"), [CONFIG], device="cpu")
    for name in ("camera.onnx", "lidar_head.onnx", "lidar_encoder.onnx"):
        assert f"{folder}/models/{name}" in plan.parameters
    surround = str(ROOT / "config/demo_surround_3d.param.yaml")
    named = [f"surround.calibration_paths:=[{', '.join(cameras)}]"]
    plan = make_plan(str(drives / "first"), str(tmp_path / "out"), [surround], parameters=named, device="cpu")
    for camera in cameras:
        assert f"{folder}/{camera}" in plan.parameters


def test_failures_are_retried_by_their_code_and_listed(
    drives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = (
        f'echo "$2" >> {tmp_path}/attempts\n'
        'case "$2" in\n'
        '  */first) echo "it is broken" >&2; exit 1;;\n'
        "  */town/1) kill -9 $$;;\n"
        f'  */town/2) [ $(grep -c town/2 {tmp_path}/attempts) = 1 ] && exit 4;;\n'
        "esac\n"
        f'exec {_program.path()} "$@"'
    )
    monkeypatch.setenv("DET_POST_PROGRAM", program(tmp_path, replay))
    out = tmp_path / "out"
    assert run_fleet(drives, out, "--engine", "process") == 1
    found = states(out)
    assert [state for _, state, _ in found] == ["failed", "interrupted", "done", "damaged"]
    attempts = (tmp_path / "attempts").read_text().split()
    of = [sum(line.endswith(name) for line in attempts) for name in NAMES]
    assert of == [2, 4, 2, 1]
    failures = [json.loads(line) for line in (out / "failures.jsonl").read_text().splitlines()]
    assert [failure["name"] for failure in failures] == ["first", "town/1"]
    assert failures[0]["log"] == "it is broken"
    assert not (out / "first").exists()


def test_a_wrong_configuration_ends_the_run_before_it_starts(drives: Path, tmp_path: Path) -> None:
    assert run_fleet(drives, tmp_path / "out", "-p", "camera.score_threshold:=7") == 2
    assert run_fleet(drives, tmp_path / "out", "-p", "camera.model_path:=none.onnx") == 2
    assert run_fleet(tmp_path, tmp_path / "out") == 2
    assert not (tmp_path / "out").exists()


def test_the_key_follows_what_results_depend_on(drives: Path, tmp_path: Path) -> None:
    def keys(*parameters: str, device: str = "cpu", of: Path = drives) -> list[str]:
        plan = make_plan(str(of), str(tmp_path / "out"), [CONFIG], parameters=parameters, device=device)
        return [unit.key for unit in plan.units]

    before = keys()
    assert len(set(before)) == 4 and keys() == before
    assert not set(keys("camera.score_threshold:=0.7")) & set(before)
    assert not set(keys(device="cuda:0")) & set(before)
    # A byte at the end of one recording: only that unit.
    copy = tmp_path / "drives"
    subprocess.run(["cp", "-r", drives, copy], check=True)
    assert keys(of=copy) == before
    changed = next((copy / "town/1").glob("*.mcap"))
    data = bytearray(changed.read_bytes())
    data[-20] ^= 1
    changed.write_bytes(data)
    assert [a == b for a, b in zip(keys(of=copy), before)] == [True, False, True, True]


S = 10**9


def test_slices_cover_all_log_times() -> None:
    bounds = divide([Interval(10 * S, 35 * S + 1, 1000)], 10.0).bounds
    assert bounds[0][0] is None and bounds[-1][1] is None and len(bounds) == 3
    assert all(a[1] == b[0] for a, b in zip(bounds, bounds[1:]))
    assert divide([Interval(0, 5 * S, 100)], 10.0).bounds == [(None, None)]
    assert divide([Interval(0, 50 * S, 100)], 0.0).bounds == [(None, None)]
    assert divide([], 10.0).bounds == [(None, None)]


def test_slices_follow_messages_not_the_time_between_them() -> None:
    start = 1_700_000_000 * S
    drive = [Interval(start + n * S, start + (n + 1) * S, 50) for n in range(60)]
    ordinary = divide(drive, 20.0)
    assert (len(ordinary.bounds), ordinary.note) == (3, None)
    for outliers in (
        [Interval(0, 0, 1)],
        [Interval(2**64 - 1, 2**64 - 1, 1)],
        [Interval(2**64 - 2, 2**64 - 2, 1), Interval(2**64 - 1, 2**64 - 1, 1), Interval(0, 0, 1)],
        # In a chunk with others.
        [Interval(0, start + S, 51)],
        [Interval(start + 58 * S, 2**64 - 1, 51)],
    ):
        division = divide(drive + outliers, 20.0)
        assert 3 <= len(division.bounds) <= 3 + 2 * len(outliers), outliers
        cuts = [end for _, end in division.bounds[:-1]]
        assert cuts == sorted(set(cuts)) and 0 < cuts[0] and cuts[-1] < 2**63
        of_drive = [cut for cut in cuts if start < cut < start + 60 * S]
        assert len(of_drive) >= 2, "the drive is divided all the same"
        assert division.seconds < 200.0 and "pauses of more than 20 s" in (division.note or "")
    # A declared span that its messages cannot fill, and more slices than anyone wants.
    assert len(divide([Interval(0, start, 3)], 20.0).bounds) <= 3
    many = divide([Interval(n * 1000 * S, n * 1000 * S, 1) for n in range(3 * MAX_SLICES)], 20.0)
    assert len(many.bounds) <= MAX_SLICES and "the limit" in (many.note or "")


def mcap(times: list[int], chunks: list[list[int]]) -> bytes:
    """The end of an MCAP file: statistics and indexes of chunks, with 2 channels each."""
    magic = b"\x89MCAP0\r\n"
    records = struct.pack("<BQQHIIIIQQI", 0x0B, 46, len(times), 0, 2, 0, 0, len(chunks), min(times), max(times), 0)
    for chunk in chunks:
        index = struct.pack("<QQQQI20xQ", min(chunk), max(chunk), 0, 0, 20, 30 + 16 * len(chunk))
        body = index + struct.pack("<IQQ", 0, 0, 0)
        records += struct.pack("<BQ", 0x08, len(body)) + body
    return magic + records + struct.pack("<BQQQI", 0x02, 20, len(magic), 0, 0) + magic


def test_log_times_are_those_of_the_index(tmp_path: Path) -> None:
    store = Store(str(tmp_path))

    def intervals(name: str) -> list[Interval]:
        names = [name, *(["metadata.yaml"] if (tmp_path / "metadata.yaml").exists() else [])]
        return intervals_of(store, {name: store.fs.info(store.at(name)) for name in names}, 16.0)

    (tmp_path / "a.mcap").write_bytes(mcap([1, 2, 3, 2**64 - 1], [[1, 2], [3, 2**64 - 1]]))
    assert intervals("a.mcap") == [Interval(1, 2, 2), Interval(3, 2**64 - 1, 2)]
    (tmp_path / "whole.mcap").write_bytes(mcap([5, 9], []))
    assert intervals("whole.mcap") == [Interval(5, 9, 2)]
    hostile = bytearray(mcap([5, 9], [[5, 9]]))
    struct.pack_into("<I", hostile, 8 + 9 + 46 + 9 + 32, 2**32 - 1)
    (tmp_path / "hostile.mcap").write_bytes(hostile)
    assert intervals("hostile.mcap") == [Interval(5, 9, 2)]
    (tmp_path / "b.db3").touch()
    assert intervals("b.db3") == []
    text = (
        "rosbag2_bagfile_information:\n  duration:\n    nanoseconds: 30\n  starting_time:\n"
        "    nanoseconds_since_epoch: 12\n  topics_with_message_count:\n    - message_count: 3\n  message_count: 7\n"
    )
    (tmp_path / "metadata.yaml").write_text(text)
    assert intervals("b.db3") == [Interval(12, 42, 7)]
    (tmp_path / "b.db3").unlink()
    database = sqlite3.connect(tmp_path / "b.db3")
    database.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL)")
    times = [0, *(1_700_000_000 * S + n * S // 10 for n in range(600))]
    database.executemany("INSERT INTO messages(timestamp) VALUES (?)", [(time,) for time in times])
    database.commit()
    assert intervals("b.db3") == [Interval(12, 42, 7)], "without an index it would be read whole"
    database.execute("CREATE INDEX timestamp_idx ON messages(timestamp)")
    database.commit()
    database.close()
    found = intervals("b.db3")
    assert found[0] == Interval(0, 0, 1) and 50 < len(found) < 70
    assert len(divide(found, 16.0).bounds) in (4, 5, 6)


def test_single_files_are_recordings_that_declare_their_span(drives: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    data = next((drives / "first").glob("*.mcap")).read_bytes()
    (folder / "a.mcap").write_bytes(data)
    (folder / "cut.mcap").write_bytes(data[: len(data) // 2])
    plan = make_plan(str(folder), str(tmp_path / "out"), [CONFIG], device="cpu")
    whole, cut = plan.units
    assert (whole.name, cut.name) == ("a", "cut")
    assert whole.data_seconds == pytest.approx(SECONDS, abs=0.2) and cut.data_seconds is None
    by_itself = make_plan(str(folder / "a.mcap"), str(tmp_path / "out"), [CONFIG], device="cpu")
    assert [unit.name for unit in by_itself.units] == ["a"]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FOREIGN = {
    "first/detections/mine.mcap": b"a recording of the user",
    "town/1/report.json": b"my report",
    "town/2/notes.txt": b"my notes",
    "town/2/holiday/a.jpg": b"my image",
    "a.part-0123abcd/b": b"mine",
    "town/3.part-ffffffff": b"mine",
    "det_post.txt": b"mine",
}


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def test_files_of_the_user_stay_and_are_named(drives: Path, serial: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(out, FOREIGN)
    assert run_fleet(drives, out, "--engine", "process") == 1
    assert [state for _, state, _ in states(out)] == ["failed", "failed", "done", "damaged"]
    now = tree(out)
    assert {name: now[name] for name in FOREIGN} == FOREIGN
    failures = (out / "failures.jsonl").read_text().splitlines()
    for line, name in zip(failures, ("first/detections/mine.mcap", "town/1/report.json"), strict=True):
        assert f"{name} was not written by det_post" in line and "move or remove it" in line
    # Out of the way, the same command goes on; a file that was edited since is refused.
    (out / "first/detections/mine.mcap").unlink()
    (out / "town/1/report.json").unlink()
    assert run_fleet(drives, out, "--engine", "process") == 3
    assert_same(out, serial)
    (out / "first/report.json").write_text("{}")
    (out / "first/unit.json").unlink()
    assert run_fleet(drives, out, "--engine", "process") == 1
    assert (out / "first/report.json").read_text() == "{}"
    assert "was changed after det_post wrote it" in (out / "failures.jsonl").read_text()


@pytest.mark.parametrize("name", ["plan.json", "drives.jsonl", "failures.jsonl", "manifest.parquet"])
def test_files_of_the_run_are_own_ones(
    drives: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    put(out, {name: b'["mine"]'})
    before = tree(out)
    assert run_fleet(drives, out, "--engine", "process") == 2
    assert tree(out) == before
    assert f"{name} was not written by det_post" in capsys.readouterr().err
    assert fleet.main(["--out", str(out), "--collect-only"]) == 2
    (out / name).unlink()
    (tmp_path / "elsewhere").write_bytes(b"mine")
    (out / name).symlink_to(tmp_path / "elsewhere")
    assert run_fleet(drives, out, "--plan-only") == 2
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"


def test_results_are_never_where_recordings_are(
    drives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "all/drives"
    copy.parent.mkdir()
    subprocess.run(["cp", "-r", drives, copy], check=True)
    (tmp_path / "link").symlink_to(copy)
    before = tree(copy)
    for recordings, out in (
        (copy, copy),
        (copy, tmp_path / "link"),
        (copy / "first", copy),
        (copy / "first", copy / "first"),
        (copy / "first", tmp_path / "link"),
        (tmp_path / "link/first", copy),
        (copy / "town", copy / "town"),
    ):
        assert run_fleet(recordings, out, "--engine", "process") == 2, (recordings, out)
        assert tree(copy) == before, (recordings, out)
        assert "choose" in capsys.readouterr().err
    # Below the recordings, and around them, are no recordings.
    assert run_fleet(copy, copy / "results", "--plan-only") == 0
    assert run_fleet(copy, tmp_path / "all", "--plan-only") == 0
    names = [unit["name"] for unit in json.loads((tmp_path / "all/plan.json").read_text())["units"]]
    assert names == NAMES
    assert {name: data for name, data in tree(copy).items() if not name.startswith("results/")} == before


def test_a_bad_file_costs_its_recording(drives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "files"
    data = next((drives / "first").glob("*.mcap")).read_bytes()
    put(folder, {"good.mcap": data, "plan.json.mcap": data, "same.mcap": data, "same.db3": b"", "same/inner.mcap": data})
    os.mkfifo(folder / "pipe.mcap")
    (folder / "nothing.mcap").symlink_to(folder / "gone.mcap")
    (folder / "loop.mcap").symlink_to(folder / "loop.mcap")
    (folder / "folder.mcap").symlink_to(tmp_path)
    (folder / "bag").mkdir()
    os.mkfifo(folder / "bag/metadata.yaml")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.mcap")).write_bytes(data)
    assert run_fleet(folder, tmp_path / "out", "--engine", "process") == 1
    rows = {row["recording"]: row for row in pq.read_table(tmp_path / "out/manifest.parquet").to_pylist()}
    assert {name for name, row in rows.items() if row["state"] == "done"} == {"good.mcap"}
    refused = {name: row["log"] for name, row in rows.items() if row["state"] == "refused"}
    for name, words in {
        "pipe.mcap": "is not a regular file",
        "nothing.mcap": "is a link to nothing",
        "loop.mcap": "cannot be read",
        "folder.mcap": "is not a regular file",
        "bag": "metadata.yaml is not a regular file",
        "caf\\udce9.mcap": "is not UTF-8",
        "plan.json.mcap": "has the name of a file that a run writes",
        "same.mcap": "has the same results as same.db3",
        "same.db3": "has the same results as same.mcap",
        "same/inner.mcap": "has results inside those of same.db3",
    }.items():
        assert words in refused.pop(name), name
    assert refused == {}
    log = capsys.readouterr().err
    assert "refused: pipe.mcap is left out: pipe.mcap is not a regular file" in log and "refused: 10 recordings" in log
    assert len((tmp_path / "out/failures.jsonl").read_text().splitlines()) == 10


def test_one_wrong_log_time_is_no_million_units(drives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "files"
    start = 1_700_000_000 * S
    chunk = [start + n for n in range(100)]
    for number, outlier in enumerate((0, 2**64 - 1)):
        put(folder, {f"{number}.mcap": mcap([*chunk, outlier], [chunk, [chunk[0], outlier]])})
    assert run_fleet(folder, tmp_path / "out", "--plan-only") == 0
    units = json.loads((tmp_path / "out/plan.json").read_text())["units"]
    assert 2 <= len(units) <= 6
    assert "1.mcap: log times from 1700000000.000 s to 18446744073.710 s" in capsys.readouterr().err


def test_parts_of_a_killed_run_go_with_the_next(drives: Path, serial: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [str(_program.path()), "replay", str(drives / "first"), "--config", CONFIG, "--device", "cpu"]
    killed = subprocess.Popen([*command, "--out", str(out / "first")], cwd=ROOT, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120.0
    while not list(out.rglob("detections.jsonl")) and time.monotonic() < end:
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    assert (out / "first/det_post.partial").is_dir()
    put(out, {"det_post.partial/mine": b"mine"})
    assert run_fleet(drives / "first", out, "--engine", "process") == 2, "a file of the user among the parts of the run"
    (out / "det_post.partial/mine").unlink()
    assert run_fleet(drives / "first", out, "--engine", "process") == 0
    assert results(out, "first") == results(serial, "first")
    assert list(out.rglob("det_post.partial")) == []


def test_slices_of_an_earlier_plan_go(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for index in range(3):
        outputs.write_all(store, f"town/slices/{index:04}", {"unit.json": b"{}", "report.json": b"{}"})
    put(tmp_path, {"town/slices/0001/mine": b"mine", "town/slices/0007/mine": b"mine", "town/slices/notes": b"mine"})
    assert outputs.remove_slices(store, "town", {"0000"}) == []
    assert sorted(tree(tmp_path)) == [
        "town/slices/0000/.det_post.jsonl", "town/slices/0000/report.json", "town/slices/0000/unit.json",
        "town/slices/0001/mine", "town/slices/0007/mine", "town/slices/notes",
    ]
