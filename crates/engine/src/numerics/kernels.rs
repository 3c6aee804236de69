//! Which copy of the kernels runs (`dispatch!`). It follows from the CPU; tests can force the copy for any CPU,
//! to show that both give the same bits.

use std::sync::atomic::{AtomicBool, Ordering};

static GENERIC: AtomicBool = AtomicBool::new(false);

/// Makes every kernel of the process use the copy for any CPU, or again the best one.
#[doc(hidden)]
pub fn force_generic(forced: bool) {
    GENERIC.store(forced, Ordering::Relaxed);
}

/// Whether kernels use their copy for AVX2 and FMA.
#[inline]
pub fn avx2_and_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        !GENERIC.load(Ordering::Relaxed)
            && std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
