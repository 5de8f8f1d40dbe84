//! `det_post eval --html` as a browser shows it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::replay::det_post;
use common::require::{Need, skip};
use serde_json::Value;

/// Sorts the first table by its second column, down and up, and leaves both orders in the page.
const SORT: &str = r#"<script>
  const table = document.querySelector("table.sortable");
  const order = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[1].textContent));
  const click = () => table.tHead.rows[0].cells[1].querySelector("button").click();
  click();
  const down = order();
  click();
  const result = document.createElement("pre");
  result.id = "sorted";
  result.textContent = JSON.stringify([down, order()]);
  document.body.append(result);
</script></body>"#;

/// How far a page of this width scrolls to the side, left in the page that holds it.
const NARROW: &str = r#"<!doctype html><body><iframe id=page style="width:420px;height:900px"></iframe><script>
  const frame = document.getElementById("page");
  frame.onload = () => {
    const page = frame.contentDocument;
    page.querySelectorAll("details").forEach((one) => { one.open = true; });
    const result = document.createElement("pre");
    result.id = "widths";
    result.textContent = `${page.documentElement.scrollWidth} ${frame.clientWidth}`;
    document.body.append(result);
  };
  frame.srcdoc = PAGE;
</script></body>"#;

/// A browser, by `DET_POST_CHROMIUM` or its usual names.
fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("DET_POST_CHROMIUM").map(PathBuf::from);
    named.or_else(|| {
        let folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let files = names.iter().flat_map(|name| folders.iter().map(move |at| at.join(name)));
        files.into_iter().find(|file| file.is_file())
    })
}

/// What a browser that reaches no host prints for a page.
#[track_caller]
fn browse(program: &Path, folder: &Path, page: &Path, what: &str) -> String {
    let output = Command::new(program)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(["--window-size=1300,6000", what])
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {log}");
    assert!(!log.contains("CONSOLE"), "{what}: {log}");
    String::from_utf8(output.stdout).unwrap()
}

/// The pixels of a PNG file by red, green and blue.
fn pixels(path: &Path) -> Vec<[u8; 3]> {
    let mut decoder = png::Decoder::new(std::io::BufReader::new(fs::File::open(path).unwrap()));
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::ALPHA);
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut bytes).unwrap();
    bytes.chunks_exact(4).map(|rgba| [rgba[0], rgba[1], rgba[2]]).collect()
}

/// A page of a simulated drive: the same twice, with nothing from elsewhere, sorted by a click,
/// with the boxes of its worst frames in their colours.
#[test]
fn a_page_opens_from_disk_with_the_worst_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (drive, out) = (path("drive"), path("out"));
    det_post(&["simulate", "--seed", "3", "--seconds", "0.3", "--out", &drive]).expect_code(0);
    det_post(&["replay", &drive, "--config", "config/demo.param.yaml", "--out", &out])
        .expect_code(0);
    let page = |name: &str| {
        let html = path(name);
        det_post(&["eval", "--detections", &out, "--truth", &drive, "--html", &html])
            .expect_code(0);
        fs::read_to_string(html).unwrap()
    };
    let html = page("page.html");
    assert_eq!(html, page("again.html"), "the same evaluation gives the same bytes");

    assert!(html.contains("Content-Security-Policy\" content=\"default-src 'none'; img-src data:"));
    // A drive this short has few objects of any class.
    assert!(html.contains("*</td>") && html.contains("* fewer than 41 objects"));
    assert!(!html.contains("://") && !html.contains("src=\"") && !html.contains("url("));
    let num_links = html.matches("href=").count();
    assert_eq!(num_links, html.matches("href=\"data:image/jpeg;base64,/9j/").count());
    let parts: Vec<&str> = html.split("<h2>").collect();
    let [begin, lidar, camera, sources] = parts[..] else {
        panic!("a beginning, lidar, camera and sources")
    };
    for part in ["mAP", "BEV AP", "AP50", "<td>cpu</td>", "p50, ms"] {
        assert!(begin.contains(part), "{part}: {begin}");
    }
    assert!(sources.contains(&drive), "{sources}");
    let sections = [lidar, camera];
    for section in sections {
        let num_frames = section.matches("<figure>").count();
        assert!((1..=10).contains(&num_frames), "{num_frames} frames");
        let shown = section.split("more frame").next().unwrap().matches("<figure>").count();
        assert_eq!(shown, num_frames.min(4), "the others are folded");
        assert_eq!(section.matches("<image ").count(), num_frames, "one image each");
        assert_eq!(section.matches("<svg class=plot").count(), 2);
        let places = ["<svg class=plot", "<table", "<figure>"].map(|part| section.find(part));
        assert!(places.is_sorted(), "curves, tables, frames: {places:?}");
        let num_folds = 2 + usize::from(num_frames > 4);
        assert_eq!(section.matches("<details").count(), num_folds, "both tables fold");
        assert!(section.contains(" s after the start, stamp "), "{section}");
        assert!(section.contains("<text class=\"mark "), "errors are labelled");
        assert!(!section.contains(" 1 false detections"), "{section}");
        assert!(section.contains("<circle "), "the calibration curve has dots");
    }

    let Some(program) = chromium() else {
        return skip(Need::Chromium, "no chromium in PATH and no DET_POST_CHROMIUM");
    };
    let clicked = folder.path().join("clicked.html");
    fs::write(&clicked, html.replace("</body>", SORT)).unwrap();
    let shown = browse(&program, folder.path(), &clicked, "--dump-dom");
    let sorted = shown.split("<pre id=\"sorted\">").nth(1).unwrap().split('<').next().unwrap();
    let orders: [Vec<f64>; 2] =
        serde_json::from_value(serde_json::from_str::<Value>(sorted).unwrap()).unwrap();
    let [down, up] = orders;
    assert!(down.len() >= 3 && down.first() > down.last(), "{down:?}");
    assert!(down.is_sorted_by(|a, b| a >= b) && up.is_sorted(), "{down:?} {up:?}");

    let narrow = folder.path().join("narrow.html");
    let quoted = serde_json::to_string(&html).unwrap().replace("</", "<\\/");
    fs::write(&narrow, NARROW.replace("PAGE", &quoted)).unwrap();
    let shown = browse(&program, folder.path(), &narrow, "--dump-dom");
    let widths = shown.split("<pre id=\"widths\">").nth(1).unwrap().split('<').next().unwrap();
    let [needed, given] = widths.split(' ').collect::<Vec<_>>()[..] else { panic!("{widths}") };
    assert_eq!(given, "420");
    assert!(needed.parse::<u32>().unwrap() <= 420, "{needed} pixels, scrolled to the side");

    let screenshot = folder.path().join("page.png");
    let what = format!("--screenshot={}", screenshot.display());
    browse(&program, folder.path(), &folder.path().join("page.html"), &what);
    let pixels = pixels(&screenshot);
    assert_eq!(pixels.len(), 1300 * 6000);
    // Correct detections are blue, missed objects vermilion.
    for color in [[0x56, 0xb4, 0xe9], [0xd5, 0x5e, 0x00]] {
        let num = pixels.iter().filter(|&&pixel| pixel == color).count();
        assert!(num > 100, "{num} pixels of {color:x?}");
    }
    if let Some(folder) = std::env::var_os("DET_POST_SCREENSHOTS") {
        fs::copy(screenshot, Path::new(&folder).join("page.png")).unwrap();
    }
}
