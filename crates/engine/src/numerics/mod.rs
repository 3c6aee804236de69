//! The arithmetic under the rest of the engine: elementary and special functions, divergences, sums, products
//! of features and parameters, and random draws. It has the same bits on every CPU.

pub mod divergence;
pub mod elementary;
pub mod exact;
pub(crate) mod exact_terms;
pub mod kernels;
pub mod logs;
pub mod matrix;
pub mod product;
pub mod random;
pub mod special;
pub mod sum;

/// Compiles a function a second time for AVX2 + FMA and picks the copy at run time. The body must be
/// `#[inline(always)]`, so that each copy is vectorized for its own instructions. Both copies have the same
/// bits, because every fused step is an explicit `mul_add`.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = $body:path) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        $vis fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn with_avx2($($arg: $ty),*) {
                    $body($($arg),*)
                }
                if $crate::numerics::kernels::avx2_and_fma() {
                    // SAFETY: the features were just detected.
                    return unsafe { with_avx2($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}
pub(crate) use dispatch;

/// The same with a third copy, for AVX-512: for functions that do little else than arithmetic on long columns.
macro_rules! dispatch_wide {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = $body:path) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        $vis fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,fma")]
                fn with_avx512($($arg: $ty),*) {
                    $body($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn with_avx2($($arg: $ty),*) {
                    $body($($arg),*)
                }
                if $crate::numerics::kernels::avx512() {
                    // SAFETY: the features were just detected.
                    return unsafe { with_avx512($($arg),*) };
                }
                if $crate::numerics::kernels::avx2_and_fma() {
                    // SAFETY: the features were just detected.
                    return unsafe { with_avx2($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}
pub(crate) use dispatch_wide;
