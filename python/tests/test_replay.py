"""Recordings to results, and the program's errors as exceptions."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import det_post
from det_post import _program


def test_simulate_gives_the_same_bytes_for_the_same_seed(drive: Path, tmp_path: Path) -> None:
    again = det_post.simulate(tmp_path / "drive", seed=9102, seconds=0.4, points=20_000)
    other = det_post.simulate(tmp_path / "other", seed=9103, seconds=0.4, points=20_000)
    (mcap,) = drive.glob("*.mcap")
    assert (again / mcap.name).read_bytes() == mcap.read_bytes()
    (other_mcap,) = other.glob("*.mcap")
    assert other_mcap.read_bytes() != mcap.read_bytes()


def test_result_holds_what_the_program_wrote(result: det_post.Result) -> None:
    lines = (result.folder / "detections.jsonl").read_text().splitlines()
    frames = list(result.frames())
    assert frames == [json.loads(line) for line in lines]
    channels = result.report["channels"]
    assert {frame["channel"] for frame in frames} == set(channels) == {"camera", "lidar"}
    for name, channel in channels.items():
        assert len(list(result.frames(name))) == channel["frames_out"] > 0
        assert len(result.detections(name)) == channel["detections"] > 0
    assert str(result.folder) in repr(result)


def test_detections_of_images_and_of_space(result: det_post.Result) -> None:
    detections = result.detections()
    assert [d["channel"] for d in detections] == [
        frame["channel"]
        for frame in result.frames()
        for _ in frame.get("detections_2d", []) + frame.get("detections_3d", [])
    ]
    for detection in detections:
        in_image = detection["channel"] == "camera"
        assert (detection["box"] is not None) == in_image
        assert (detection["center"] is None) == in_image
        assert detection["recording"].endswith("drive")
    camera = result.detections("camera")
    assert camera == [d for d in detections if d["channel"] == "camera"]
    frame = [d for d in camera if d["stamp_ns"] == camera[0]["stamp_ns"]]
    assert [d["index"] for d in frame] == list(range(len(frame)))
    assert [d["score"] for d in frame] == sorted((d["score"] for d in frame), reverse=True)


def test_arrow_table_has_a_row_per_detection(result: det_post.Result) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = result.to_arrow()
    detections = result.detections()
    assert table.num_rows == len(detections)
    assert table.column_names == list(detections[0])
    assert table.schema.field("score").type == pyarrow.float32()
    rows = table.to_pylist()
    assert [row["stamp_ns"] for row in rows] == [d["stamp_ns"] for d in detections]
    assert [row["class_name"] for row in rows] == [d["class_name"] for d in detections]
    # Numbers of the JSON lines are f32 already: nothing is rounded again.
    assert rows == [
        {
            key: pyarrow.array([value], type=table.schema.field(key).type).to_pylist()[0]
            for key, value in detection.items()
        }
        for detection in detections
    ]


def test_data_frames_have_a_row_per_detection(result: det_post.Result) -> None:
    pandas = pytest.importorskip("pandas")
    frame = result.to_pandas("lidar")
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == len(result.detections("lidar"))
    assert list(frame["score"]) == [d["score"] for d in result.detections("lidar")]


def test_polars_frames_have_a_row_per_detection(result: det_post.Result) -> None:
    polars = pytest.importorskip("polars")
    frame = result.to_polars()
    assert frame.height == len(result.detections())
    assert frame.schema["box"] == polars.List(polars.Float32)
    assert frame["class_name"].to_list() == [d["class_name"] for d in result.detections()]


def test_results_are_opened_again_and_others_are_refused(
    result: det_post.Result, tmp_path: Path
) -> None:
    assert det_post.Result(result.folder).detections() == result.detections()
    with pytest.raises(FileNotFoundError, match="holds no report.json"):
        det_post.Result(tmp_path)


def test_a_network_and_its_topic_need_no_configuration(result: det_post.Result, drive: Path, config: Path) -> None:
    model = config.parents[1] / "models" / "camera.onnx"
    found = det_post.replay(drive, model=model, topic="/camera_0/image", device="cpu", onnxruntime=False)
    assert found.detections() == [{**d, "recording": found.detections()[0]["recording"]} for d in result.detections("camera")]


def test_a_result_without_a_folder_of_its_own_is_deleted_with_it(drive: Path, config: Path) -> None:
    params = {"camera.score_threshold": 0.9}
    result = det_post.replay(drive, config, params=params, onnxruntime=False)
    folder = result.folder
    assert folder.is_dir()
    assert all(d["score"] >= 0.9 for d in result.detections("camera"))
    del result
    assert not folder.exists()


def test_parts_of_a_recording_join_to_the_whole(
    result: det_post.Result, drive: Path, config: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json"
    first = det_post.replay(
        drive, config, to_time="+0.2", device="cpu", onnxruntime=False, trace=trace
    )
    last = det_post.replay(drive, config, from_time="+0.2", device="cpu", onnxruntime=False)
    parts = [list(part.frames()) for part in (first, last)]
    assert all(parts)
    assert parts[0] + parts[1] == list(result.frames())
    assert json.loads(trace.read_text())


def test_evaluation_compares_with_truth(result: det_post.Result, drive: Path) -> None:
    evaluation = det_post.evaluate(result, drive)
    assert str(evaluation) == evaluation.table
    assert "car" in evaluation.table
    assert evaluation.figures
    twice = det_post.evaluate([result, result.folder], [drive, drive])
    assert twice.figures != evaluation.figures
    with pytest.raises(det_post.Error, match="1 --detections do not match 2 --truth"):
        det_post.evaluate(result, [drive, drive])


def test_evaluation_writes_a_page_and_files_of_coco(
    result: det_post.Result, drive: Path, tmp_path: Path
) -> None:
    drives = tmp_path / "drives.jsonl"
    drives.write_text(json.dumps({"detections": str(result.folder), "truth": str(drive)}) + "\n")
    page, coco = tmp_path / "page.html", tmp_path / "coco"
    evaluation = det_post.evaluate(drives=drives, html=page, coco=coco)
    assert evaluation.figures == det_post.evaluate(result, drive).figures
    assert page.read_text().startswith("<!doctype html>")
    assert list(coco.iterdir())
    with pytest.raises(det_post.UsageError):
        det_post.evaluate()


def test_wrong_configuration_is_a_usage_error_in_the_programs_words(
    drive: Path, config: Path, tmp_path: Path
) -> None:
    with pytest.raises(det_post.UsageError, match="camera.score_threshhold") as caught:
        det_post.replay(drive, config, out=tmp_path / "out", params={"camera.score_threshhold": 1})
    assert caught.value.exit_code == 2
    assert "ERROR" in caught.value.log
    with pytest.raises(det_post.UsageError, match="invalid value 'never'") as caught:
        det_post.replay(drive, config, out=tmp_path / "out", device="never")
    assert not (tmp_path / "out" / "report.json").exists()


def test_a_missing_recording_is_an_error(config: Path, tmp_path: Path) -> None:
    with pytest.raises(det_post.Error, match="no_such_drive") as caught:
        det_post.replay(tmp_path / "no_such_drive", config)
    assert caught.value.exit_code == 1


def test_a_damaged_recording_gives_its_result_with_the_error(
    drive: Path, config: Path, tmp_path: Path
) -> None:
    (mcap,) = drive.glob("*.mcap")
    damaged = tmp_path / "damaged.mcap"
    damaged.write_bytes(mcap.read_bytes()[: mcap.stat().st_size * 2 // 3])
    with pytest.raises(det_post.DamagedError) as caught:
        det_post.replay(damaged, config, onnxruntime=False)
    assert caught.value.exit_code == 3
    report = caught.value.result.report
    assert report["damage"] and report["channels"]["lidar"]["frames_out"] > 0


def test_an_interrupted_replay_is_an_error_of_its_own(
    drive: Path, config: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def interrupt() -> None:
        while not list(out.glob("det_post.partial/*")):
            time.sleep(0.01)
        children = subprocess.run(
            ["pgrep", "-P", str(os.getpid()), "-x", "det_post"], capture_output=True, text=True
        )
        os.kill(int(children.stdout), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(det_post.InterruptedRunError) as caught:
        det_post.replay(drive, config, out=out, rate=0.01, onnxruntime=False)
    thread.join()
    assert caught.value.exit_code == 4
    assert (out / "det_post.partial").is_dir() and not (out / "report.json").exists()


def test_an_exception_in_python_ends_the_program(drive: Path, config: Path, tmp_path: Path) -> None:
    code = (
        "import det_post, signal\n"
        "def interrupted(*_): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, interrupted)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.5)\n"
        f"det_post.replay({str(drive)!r}, {str(config)!r}, out={str(tmp_path / 'out')!r}, rate=0.01)\n"
    )
    started = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "KeyboardInterrupt" in ended.stderr
    assert time.monotonic() - started < 20


def test_an_installed_onnxruntime_is_found_without_importing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ORT_DYLIB_PATH", raising=False)
    if importlib.util.find_spec("onnxruntime") is None:
        assert _program.onnxruntime_library() is None
        pytest.skip("onnxruntime is not installed")
    library = _program.onnxruntime_library()
    assert library is not None and library.name.startswith("libonnxruntime.so")
    assert _program.environment()["ORT_DYLIB_PATH"] == str(library)
    assert "onnxruntime" not in sys.modules
    assert "ORT_DYLIB_PATH" not in _program.environment(onnxruntime=False)
    assert _program.environment("/a/b.so")["ORT_DYLIB_PATH"] == "/a/b.so"
    monkeypatch.setenv("ORT_DYLIB_PATH", "/named.so")
    assert _program.environment()["ORT_DYLIB_PATH"] == "/named.so"


def test_networks_run_on_the_installed_onnxruntime(
    drive: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.delenv("ORT_DYLIB_PATH", raising=False)
    library = _program.onnxruntime_library()
    assert library is not None
    report = det_post.replay(drive, config, device="cpu").report
    assert {c["engine"] for c in report["channels"].values()} == {
        f"onnxruntime ({library.name})"
    }


def test_libraries_of_cuda_are_found_beside_the_provider(tmp_path: Path) -> None:
    capi = tmp_path / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    library = capi / "libonnxruntime.so.1.20.0"
    (tmp_path / "nvidia" / "cudnn" / "lib").mkdir(parents=True)
    before = os.environ.get("LD_LIBRARY_PATH")
    assert _program.environment(library).get("LD_LIBRARY_PATH") == before
    (capi / "libonnxruntime_providers_cuda.so").touch()
    folders = _program.environment(library)["LD_LIBRARY_PATH"].split(":")
    assert folders[0] == str(tmp_path / "nvidia" / "cudnn" / "lib")


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DET_POST_PROGRAM", str(tmp_path / "missing"))
    with pytest.raises(det_post.Error, match="cannot start .*missing"):
        det_post.simulate(tmp_path / "drive")


def test_python_m_det_post_is_the_program() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "det_post", "--version"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("det_post ")
