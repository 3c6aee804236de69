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

/// Whether kernels use their copy for AVX-512.
#[inline]
pub fn avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        !GENERIC.load(Ordering::Relaxed)
            && std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512dq")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Numbers in [−1, 1) that depend on the salt alone, for comparing the copies of a kernel.
#[cfg(test)]
pub(crate) fn noise(n: usize, salt: u64) -> Vec<f64> {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(salt);
    (0..n).map(|_| 2.0 * rng.random::<f64>() - 1.0).collect()
}
