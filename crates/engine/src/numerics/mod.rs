//! Arithmetic that the rest of the core stands on: special functions, divergences, sums, and the
//! row-by-row product of features and parameters in f64.

pub mod divergence;
pub mod product;
pub mod special;
pub mod sum;

/// Compiles a function once more for AVX2 + FMA and picks at run time. The body must be
/// `#[inline(always)]`, so that each copy is vectorised for its own instructions.
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
                if std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("fma")
                {
                    // SAFETY: the features were just detected.
                    return unsafe { with_avx2($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}
pub(crate) use dispatch;
