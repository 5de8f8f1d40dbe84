use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// Sums the inputs that have entered, and sends the size of each run.
struct Sums {
    entered: Vec<i32>,
    sum: i32,
    runs: Sender<usize>,
    fails_at: Option<usize>,
    num_runs: usize,
}

impl Work for Sums {
    fn run(&mut self) -> Result<()> {
        let entered = std::mem::take(&mut self.entered);
        self.sum = entered.iter().sum();
        self.num_runs += 1;
        self.runs.send(entered.len()).unwrap();
        match self.fails_at {
            Some(at) if at == self.num_runs => {
                Err(Error::new(ErrorKind::Device, "sums", "on purpose").with_source("a cause"))
            }
            _ => Ok(()),
        }
    }
}

fn batch(num_places: usize, fails_at: Option<usize>) -> (Arc<Batch<Sums>>, Receiver<usize>) {
    let (runs, ran) = channel();
    let make = move || Ok(Sums { entered: vec![], sum: 0, runs, fails_at, num_runs: 0 });
    (Batch::start(num_places, make).unwrap(), ran)
}

fn members(batch: &Arc<Batch<Sums>>, num: usize) -> Vec<Member<Sums>> {
    (0..num).map(|place| batch.join(place).unwrap()).collect()
}

fn enter(member: &Member<Sums>, value: i32) -> Result<()> {
    member.enter(|sums| {
        sums.entered.push(value);
        Ok(())
    })
}

fn leave(member: &Member<Sums>, limit: Duration) -> Result<i32> {
    member.leave(limit, |sums| Ok(sums.sum))
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn the_last_member_that_enters_starts_the_run() {
    let (batch, ran) = batch(3, None);
    let members = members(&batch, 3);
    for round in 1..=3 {
        for member in &members {
            enter(member, round).unwrap();
        }
        // No limit is over.
        for member in &members {
            assert_eq!(leave(member, LONG).unwrap(), 3 * round);
        }
    }
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [3, 3, 3]);
}

#[test]
fn a_limit_starts_the_run_without_missing_members() {
    let (batch, ran) = batch(3, None);
    let members = members(&batch, 3);
    enter(&members[2], 5).unwrap();
    enter(&members[0], 7).unwrap();
    let start = Instant::now();
    assert_eq!(leave(&members[0], Duration::from_millis(30)).unwrap(), 12);
    assert!(start.elapsed() >= Duration::from_millis(30));
    // The next run waits until all have left this one.
    enter(&members[1], 1).unwrap();
    assert_eq!(leave(&members[2], LONG).unwrap(), 12);
    assert_eq!(leave(&members[1], Duration::ZERO).unwrap(), 1);
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn members_in_threads_get_the_sums_of_their_runs() {
    const NUM_FRAMES: i32 = 200;
    let (batch, ran) = batch(4, None);
    let threads = members(&batch, 4).into_iter().map(|member| {
        std::thread::spawn(move || {
            for frame in 1..=NUM_FRAMES {
                enter(&member, 1).unwrap();
                let sum = leave(&member, Duration::from_millis(200)).unwrap();
                assert!((1..=4).contains(&sum), "{frame}: {sum}");
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    drop(batch);
    let sizes: Vec<usize> = ran.iter().collect();
    assert_eq!(sizes.iter().sum::<usize>(), 4 * NUM_FRAMES as usize);
    // Members that have ended are not waited for.
    assert!(sizes.len() <= 2 * NUM_FRAMES as usize, "{} runs", sizes.len());
}

#[test]
fn a_failure_is_that_of_all_members_of_the_run_and_a_broken_batch_is_replaced() {
    let (batch, _ran) = batch(3, Some(1));
    let members = members(&batch, 3);
    members[..2].iter().for_each(|member| enter(member, 1).unwrap());
    for member in &members[..2] {
        let error = leave(member, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert_eq!(error.to_string(), "sums: on purpose: a cause");
    }
    // The third member joins the new batch, too.
    let error = enter(&members[2], 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert!(error.message().contains("other members"), "{error}");
    let slot = BatchSlot::new(2);
    let start = || Ok(Arc::clone(&batch));
    slot.running(|_| true, start).unwrap();
    let other = self::batch(2, None).0;
    let found = slot.running(|_| true, || Ok(Arc::clone(&other))).unwrap();
    assert!(Arc::ptr_eq(&found, &other));
    let again = slot.running(|_| true, || panic!("one is running")).unwrap();
    assert!(Arc::ptr_eq(&again, &other));
    let elsewhere = slot.running(|_| false, || Ok(self::batch(2, None).0)).unwrap();
    assert!(!Arc::ptr_eq(&elsewhere, &other));
}

#[test]
fn calls_out_of_order_are_refused() {
    let (batch, _ran) = batch(2, None);
    let member = batch.join(0).unwrap();
    assert!(batch.join(0).is_err() && batch.join(2).is_err());
    assert_eq!(leave(&member, Duration::ZERO).unwrap_err().kind(), ErrorKind::Argument);
    let refused = member.enter(|_| Err(argument("no".to_owned())));
    assert_eq!(refused.unwrap_err().message(), "no");
    enter(&member, 1).unwrap();
    assert_eq!(enter(&member, 1).unwrap_err().kind(), ErrorKind::Argument);
    // A place is free again when its member is gone, also in the middle of a frame.
    drop(member);
    let member = batch.join(0).unwrap();
    enter(&member, 1).unwrap();
    assert!(leave(&member, LONG).is_ok());
}

#[test]
fn a_panic_of_a_run_is_an_error_of_its_members() {
    struct Panics;
    impl Work for Panics {
        fn run(&mut self) -> Result<()> {
            panic!("on purpose")
        }
    }
    let batch = Batch::start(1, || Ok(Panics)).unwrap();
    let member = batch.join(0).unwrap();
    member.enter(|_| Ok(())).unwrap();
    assert_eq!(member.leave(LONG, |_| Ok(())).unwrap_err().kind(), ErrorKind::Device);
    assert_eq!(member.enter(|_| Ok(())).unwrap_err().kind(), ErrorKind::Device);
    assert!(batch.is_broken());
}

#[test]
fn a_fixed_batch_of_another_size_is_refused_by_name() {
    let spec = |first| TensorSpec {
        name: "images".into(),
        element: None,
        shape: Some(vec![first, Dim::Fixed(3)]),
    };
    assert!(
        check_open(&spec(Dim::Dynamic), 6).is_ok() && check_open(&spec(Dim::Fixed(6)), 6).is_ok()
    );
    let error = check_open(&spec(Dim::Fixed(1)), 6).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    for word in ["images [1, 3]", "6", "batch_with"] {
        assert!(error.message().contains(word), "{error}");
    }
    assert_eq!(item_spec(&spec(Dim::Dynamic)).to_string(), "images [1, 3]");
}
