//! With `handler = external` a job type needs no `impl Job`.

use delayq::{JobType, delayed_job};

#[delayed_job(name = "resize_image", version = 2, handler = external)]
pub struct ResizeImage {
    pub path: String,
}

pub(crate) fn main() {
    assert_eq!(ResizeImage::NAME, "resize_image");
    assert_eq!(ResizeImage::OLDEST_VERSION, 2);
    assert_eq!(ResizeImage::decode(2, br#"{"path":"a.png"}"#).unwrap().path, "a.png");
}
