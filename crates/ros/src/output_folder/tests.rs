use std::os::unix::fs::symlink;

use super::*;

/// Names and contents.
type Files<'a> = &'a [(&'a str, &'a str)];

const REPLACES: Replaces = Replaces::These(&["a.txt", "folder/"]);

fn run(folder: &Path, files: Files<'_>) -> Result<()> {
    let mut out = OutputFolder::open(folder, REPLACES)?;
    for (name, text) in files {
        out.write(name, text)?;
    }
    out.finish()
}

/// Every file below a folder but the marker, with what it holds.
fn tree(folder: &Path) -> Vec<(String, String)> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else if !path.ends_with(marker::FILE_NAME) {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

fn pairs(files: Files<'_>) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[track_caller]
fn expect_refusal(result: Result<()>, words: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

#[test]
fn a_run_replaces_the_run_before_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("mine.txt"), "mine").unwrap();
    run(folder, &[("a.txt", "1"), ("folder/x", "1"), ("folder/below/y", "1")]).unwrap();
    run(folder, &[("a.txt", "2"), ("folder/z", "2")]).unwrap();
    let expected = [("a.txt", "2"), ("folder/z", "2"), ("mine.txt", "mine")];
    assert_eq!(tree(folder), pairs(&expected));
    assert!(!folder.join("folder/below").exists() && !folder.join(PARTIAL).exists());
    run(folder, &[]).unwrap();
    assert_eq!(tree(folder), pairs(&[("mine.txt", "mine")]));
    assert!(!folder.join("folder").exists());
}

#[test]
fn a_file_that_det_post_did_not_write_is_refused_by_its_name_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Nothing of ours yet: not even a marker is left in the folder.
    fs::create_dir(folder.join("folder")).unwrap();
    fs::write(folder.join("folder/drive.mcap"), "theirs").unwrap();
    expect_refusal(run(folder, &[]), &["folder/drive.mcap was not written by det_post"]);
    assert_eq!(tree(folder), pairs(&[("folder/drive.mcap", "theirs")]));
    assert!(!folder.join(marker::FILE_NAME).exists());
    fs::remove_dir_all(folder.join("folder")).unwrap();

    let first = [("a.txt", "1"), ("folder/x", "1")];
    run(folder, &first).unwrap();
    fs::write(folder.join("folder/mine"), "mine").unwrap();
    expect_refusal(run(folder, &[]), &["folder/mine was not written by det_post"]);
    fs::remove_file(folder.join("folder/mine")).unwrap();
    fs::write(folder.join("a.txt"), "edited").unwrap();
    expect_refusal(run(folder, &[]), &["a.txt was changed after det_post wrote it"]);
    assert_eq!(tree(folder), pairs(&[("a.txt", "edited"), ("folder/x", "1")]));
    // The same length, another time.
    fs::write(folder.join("a.txt"), "9").unwrap();
    expect_refusal(run(folder, &[]), &["a.txt was changed"]);
    fs::remove_file(folder.join("a.txt")).unwrap();
    run(folder, &first).unwrap();
    assert_eq!(tree(folder), pairs(&first));

    // Results that are not declared before are looked at, too.
    fs::write(folder.join("plot.png"), "theirs").unwrap();
    expect_refusal(run(folder, &[("plot.png", "ours")]), &["plot.png was not written"]);
    assert_eq!(fs::read_to_string(folder.join("plot.png")).unwrap(), "theirs");
}

#[test]
fn a_check_refuses_what_a_run_refuses_and_changes_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("out");
    OutputFolder::check(&folder, REPLACES).unwrap();
    assert!(!folder.exists());
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.txt"), "mine").unwrap();
    expect_refusal(OutputFolder::check(&folder, REPLACES), &["a.txt", "was not written by"]);
    assert!(!folder.join(marker::FILE_NAME).exists());
    fs::remove_file(folder.join("a.txt")).unwrap();
    run(&folder, &[("a.txt", "1")]).unwrap();
    OutputFolder::check(&folder, REPLACES).unwrap();
    fs::write(folder.join("a.txt"), "changed").unwrap();
    expect_refusal(OutputFolder::check(&folder, REPLACES), &["a.txt"]);
}

#[test]
fn a_folder_for_one_result_holds_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("letters.txt"), "dear").unwrap();
    let open = || OutputFolder::open(folder, Replaces::Everything);
    expect_refusal(open().map(|_| ()), &["letters.txt was not written by det_post"]);
    fs::remove_file(folder.join("letters.txt")).unwrap();
    for text in ["1", "2"] {
        let mut out = open().unwrap();
        out.write(&format!("{text}.mcap"), text).unwrap();
        out.finish().unwrap();
    }
    assert_eq!(tree(folder), pairs(&[("2.mcap", "2")]));
}

#[test]
fn links_are_refused_and_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let (folder, elsewhere) = (folder.path(), elsewhere.path());
    fs::write(elsewhere.join("x"), "theirs").unwrap();
    let cases: [(&str, &Path, Files<'_>); 5] = [
        (marker::FILE_NAME, &elsewhere.join("x"), &[]),
        ("a.txt", &elsewhere.join("x"), &[]),
        ("folder", elsewhere, &[]),
        ("plots", elsewhere, &[("plots/x", "ours")]),
        (PARTIAL, elsewhere, &[]),
    ];
    for (name, target, files) in cases {
        symlink(target, folder.join(name)).unwrap();
        let error = run(folder, files).unwrap_err();
        assert!(error.to_string().contains(name), "{name}: {error}");
        fs::remove_file(folder.join(name)).unwrap();
        assert_eq!(tree(elsewhere), pairs(&[("x", "theirs")]), "{name}");
    }
    // The folder itself may be named by a link.
    symlink(folder, elsewhere.join("link")).unwrap();
    run(&elsewhere.join("link"), &[("a.txt", "1")]).unwrap();
    assert_eq!(fs::read_to_string(folder.join("a.txt")).unwrap(), "1");
}

#[test]
fn names_do_not_lead_out_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut out = OutputFolder::open(&folder.path().join("out"), REPLACES).unwrap();
    for name in ["", "..", "../x", "folder/../../x", "/x", "."] {
        assert_eq!(out.file(name).unwrap_err().kind(), ErrorKind::Argument, "{name}");
    }
}

#[test]
fn a_name_is_begun_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut out = OutputFolder::open(folder.path(), REPLACES).unwrap();
    out.write("a.txt", "1").unwrap();
    let error = out.write("a.txt", "2").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    assert!(error.to_string().contains("a.txt is begun twice in"), "{error}");
    out.finish().unwrap();
    assert_eq!(tree(folder.path()), pairs(&[("a.txt", "1")]));
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = OutputFolder::open(folder.path(), REPLACES).unwrap();
    let error = OutputFolder::open(folder.path(), REPLACES).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("another det_post is writing to"), "{error}");
    drop(first);
    OutputFolder::open(folder.path(), REPLACES).unwrap();
}

#[test]
fn a_run_without_its_end_leaves_the_results_before() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, &[("a.txt", "1")]).unwrap();
    let begin = || {
        let mut out = OutputFolder::open(folder, REPLACES).unwrap();
        out.write("a.txt", "2").unwrap();
        out.write("folder/x", "2").unwrap();
        out
    };
    let partial = ["a.txt", "folder/x"].map(|name| (format!("{PARTIAL}/{name}"), "2".to_owned()));
    let expected = [pairs(&[("a.txt", "1")]), partial.to_vec()].concat();
    // As an error or kill -9 leaves it, and as an interruption does.
    drop(begin());
    assert_eq!(tree(folder), expected);
    begin().keep_partial().unwrap();
    assert_eq!(tree(folder), expected);
    // A part that was edited is not ours to remove any more.
    begin().keep_partial().unwrap();
    fs::write(folder.join(PARTIAL).join("a.txt"), "edited").unwrap();
    expect_refusal(run(folder, &[]), &["det_post.partial/a.txt was changed"]);
    fs::remove_file(folder.join(PARTIAL).join("a.txt")).unwrap();
    run(folder, &[("a.txt", "3")]).unwrap();
    assert_eq!(tree(folder), pairs(&[("a.txt", "3")]));
}

#[test]
fn a_list_that_was_cut_short_frees_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, &[("a.txt", "1"), ("folder/x", "1")]).unwrap();
    let marker = folder.join(marker::FILE_NAME);
    let text = fs::read_to_string(&marker).unwrap();
    assert_eq!(text.lines().count(), 3, "a line for each file: {text}");
    fs::write(&marker, &text[..text.len() - 9]).unwrap();
    expect_refusal(run(folder, &[]), &["folder/x was not written"]);
    for other in ["{\"name\": \"mine\"}\n", "\n"] {
        fs::write(&marker, other).unwrap();
        expect_refusal(run(folder, &[]), &["is not a marker of det_post"]);
        assert_eq!(fs::read_to_string(&marker).unwrap(), other);
    }
    assert_eq!(tree(folder), pairs(&[("a.txt", "1"), ("folder/x", "1")]));
}

#[test]
fn the_list_does_not_grow_from_run_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let size = || fs::metadata(folder.join(marker::FILE_NAME)).unwrap().len();
    run(folder, &[("a.txt", "1"), ("folder/x", "1")]).unwrap();
    let first = size();
    for _ in 0..5 {
        run(folder, &[("a.txt", "1"), ("folder/x", "1")]).unwrap();
    }
    assert!(size().abs_diff(first) < 40, "{first} {}", size());
}

#[test]
fn a_single_file_is_written_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("eval.json");
    for text in ["1", "2"] {
        write_file(&path, text).unwrap();
        assert_eq!(tree(folder.path()), pairs(&[("eval.json", text)]));
    }
    fs::write(&path, "edited").unwrap();
    expect_refusal(check_file(&path), &["eval.json was changed"]);
    expect_refusal(write_file(&path, "3"), &["eval.json was changed"]);
    assert_eq!(tree(folder.path()), pairs(&[("eval.json", "edited")]));
    check_file(&folder.path().join("other.json")).unwrap();
    assert_eq!(tree(folder.path()), pairs(&[("eval.json", "edited")]));
    // Nothing is made by a check.
    let own = tempfile::tempdir().unwrap();
    fs::write(own.path().join("mine"), "1").unwrap();
    expect_refusal(check_file(&own.path().join("mine")), &["mine was not written by det_post"]);
    for name in ["other.json", "later/other.json"] {
        check_file(&own.path().join(name)).unwrap();
    }
    assert_eq!(fs::read_dir(own.path()).unwrap().count(), 1);
    write_file(Path::new("/dev/null"), "gone").unwrap();
    for refused in ["/", "/dev/null/x"] {
        assert!(check_file(Path::new(refused)).is_err(), "{refused}");
        assert!(write_file(Path::new(refused), "x").is_err(), "{refused}");
    }
    check_file(Path::new("/dev/null")).unwrap();
}

#[test]
fn single_operations_touch_own_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("out");
    let names = ["a.txt", "folder/"].map(str::to_owned);
    let check = || owned::check(&folder, &names, std::time::Duration::ZERO);
    let remove = || owned::remove_files(&folder, &names);
    check().unwrap();
    remove().unwrap();
    assert!(!folder.exists(), "made by a check");
    fs::create_dir_all(folder.join(PARTIAL)).unwrap();
    fs::write(folder.join(PARTIAL).join("mine"), "mine").unwrap();
    expect_refusal(check(), &["det_post.partial/mine was not written by det_post"]);
    fs::remove_dir_all(&folder).unwrap();

    owned::write(&folder, "a.txt", &mut "1".as_bytes()).unwrap();
    owned::write(&folder, "folder/x", &mut "1".as_bytes()).unwrap();
    fs::write(folder.join("folder/mine"), "mine").unwrap();
    expect_refusal(check(), &["folder/mine was not written by det_post"]);
    expect_refusal(remove(), &["folder/mine was not written by det_post"]);
    let mine = [("a.txt", "1"), ("folder/mine", "mine"), ("folder/x", "1")];
    assert_eq!(tree(&folder), pairs(&mine));
    fs::rename(folder.join("folder/mine"), folder.join("mine")).unwrap();
    check().unwrap();
    remove().unwrap();
    assert_eq!(tree(&folder), pairs(&[("mine", "mine")]));
    assert!(!folder.join(marker::FILE_NAME).exists());
    for name in ["", "..", "../x", "/x"].map(str::to_owned) {
        let error = owned::remove_files(&folder, &[name]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    }

    // What is its own goes as a whole, with what a run that was killed left.
    fs::remove_file(folder.join("mine")).unwrap();
    run(&folder, &[("a.txt", "1"), ("folder/x", "1")]).unwrap();
    let mut killed = OutputFolder::open(&folder, REPLACES).unwrap();
    killed.write("a.txt", "2").unwrap();
    let error = check().unwrap_err();
    assert!(error.to_string().contains("another det_post is writing to"), "{error}");
    drop(killed);
    remove().unwrap();
    assert!(!folder.exists());
}
