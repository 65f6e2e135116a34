//! How fast something becomes more.

/// What became more between two looks, in its unit per second; no number where a clock or a counter jumped
/// back, or at the first look.
#[derive(Debug, Clone, Default)]
pub(super) struct Rate {
    last: Option<(f64, f64)>,
}

impl Rate {
    pub(super) fn per_s(&mut self, now_ms: f64, count: f64) -> f64 {
        if !count.is_finite() {
            self.last = None;
            return f64::NAN;
        }
        match self.last.replace((now_ms, count)) {
            Some((at_ms, before)) if now_ms > at_ms && count >= before => {
                (count - before) / (now_ms - at_ms) * 1e3
            }
            _ => f64::NAN,
        }
    }
}
