//! The arithmetic under the rest of the engine: special functions, divergences, sums, products of
//! features and parameters, and random draws.

pub mod divergence;
pub mod product;
pub mod random;
pub mod special;
pub mod sum;

/// Compiles a function a second time for AVX2 + FMA and picks the copy at run time. The body must be
/// `#[inline(always)]`, so that each copy is vectorized for its own instructions.
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
