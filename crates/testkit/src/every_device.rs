//! The same cases on every device.

/// Tests named `device::case`, for each device and each case: a function of this module that is given what `open` opens by
/// the name of the device. Where that is nothing, as there is no such device, the test does nothing.
///
/// ```
/// use std::sync::Arc;
///
/// fn open(name: &str) -> Option<Arc<String>> {
///     (name != "cuda").then(|| Arc::new(name.to_string()))
/// }
///
/// fn it_has_a_name(device: &String) {
///     assert!(!device.is_empty());
/// }
///
/// testkit::devices!(super::super::open: cpu, cuda; it_has_a_name);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! devices {
    ($open:path: $($device:ident),+; $($case:ident),+) => {
        $crate::devices!(@ $open, [$($device)+], [$($case)+]);
    };
    (@ $open:path, [$($device:ident)+], $cases:tt) => {
        $($crate::devices!(# $open, $device, $cases);)+
    };
    (# $open:path, $device:ident, [$($case:ident)+]) => {
        mod $device {
            $(
                #[test]
                fn $case() {
                    if let Some(device) = $open(stringify!($device)) {
                        super::$case(&*device);
                    }
                }
            )+
        }
    };
}
