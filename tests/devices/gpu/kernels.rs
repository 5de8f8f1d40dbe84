//! What is checked when a kernel is loaded.

use det_post::{ErrorKind, Result};
use det_post_ops::device::cuda::{Grid, KernelSpec};

/// The kernel `empty`, whose parameter has 16 bytes, declared with `N` words of 8.
struct Declared<const N: usize>;

#[expect(unsafe_code, reason = "a declaration to be checked; nothing is launched")]
// SAFETY: no kernel of this declaration is launched.
unsafe impl<const N: usize> KernelSpec for Declared<N> {
    const NAME: &'static str = "empty";
    type Args<'a> = [u64; N];

    fn check(_: &Self::Args<'_>, _: &Grid) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_parameter_of_another_size_is_refused() {
    let Some((_alone, device)) = super::gpu() else { return };
    assert!(device.kernel::<Declared<2>>().is_ok());
    let refused = [device.kernel::<Declared<1>>().err(), device.kernel::<Declared<3>>().err()];
    for (error, declared) in refused.into_iter().zip(["8", "24"]) {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Device);
        let message = error.message();
        assert!(message.contains("16 bytes") && message.contains(declared), "{message}");
    }
}
