//! How strongly a task is changed by another.

/// Classes of change of mao-2025, table III.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Below -40 %.
    DeepLoss,
    /// From -40 to -10 %.
    ModerateLoss,
    /// From -10 to -5 %.
    MildLoss,
    /// Within 5 %.
    None,
    /// From 5 to 10 %.
    MildGain,
    /// From 10 to 40 %.
    ModerateGain,
    /// Above 40 %.
    DeepGain,
}

impl Effect {
    /// The class of a change in per cent of running alone.
    ///
    /// ```
    /// use nearfar_measure::interference::Effect;
    ///
    /// assert_eq!(Effect::of_percent(-92.9), Effect::DeepLoss);
    /// assert_eq!(Effect::of_percent(-4.2), Effect::None);
    /// assert_eq!(Effect::of_percent(7.3), Effect::MildGain);
    /// ```
    pub fn of_percent(change: f64) -> Self {
        let size = change.abs();
        let (loss, gain) = match size {
            _ if size > 40.0 => (Self::DeepLoss, Self::DeepGain),
            _ if size > 10.0 => (Self::ModerateLoss, Self::ModerateGain),
            _ if size > 5.0 => (Self::MildLoss, Self::MildGain),
            _ => (Self::None, Self::None),
        };
        if change < 0.0 { loss } else { gain }
    }

    /// Its words in tables and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeepLoss => "deep",
            Self::ModerateLoss => "moderate",
            Self::MildLoss => "mild",
            Self::None => "none",
            Self::MildGain => "mild gain",
            Self::ModerateGain => "moderate gain",
            Self::DeepGain => "deep gain",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_its_far_end_and_gains_mirror_losses() {
        let changes = [5.0, 5.1, 10.0, 10.1, 40.0, 40.1];
        let names = |sign: f64| changes.map(|change| Effect::of_percent(sign * change).name());
        let losses = ["none", "mild", "mild", "moderate", "moderate", "deep"];
        assert_eq!(names(-1.0), losses);
        let gains = losses.map(|loss| match loss {
            "none" => loss.to_owned(),
            loss => format!("{loss} gain"),
        });
        assert_eq!(names(1.0), gains.each_ref().map(String::as_str));
    }
}
