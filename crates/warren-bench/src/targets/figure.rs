use crate::report::Bound;

/// A figure to be judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    pub(super) value: f64,
    pub(super) uncertain: f64,
}

impl Figure {
    pub(super) fn plain(value: f64) -> Self {
        Self { value, uncertain: 0.0 }
    }

    /// The ratio of two, which may be wrong by what both may be.
    pub(super) fn over(self, other: Self) -> Self {
        let part = |figure: Self| figure.uncertain / figure.value.abs();
        let value = self.value / other.value;
        Self { value, uncertain: value.abs() * part(self).hypot(part(other)) }
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, uncertain: self.uncertain * factor }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { value: self.value + other.value, uncertain: self.uncertain.hypot(other.uncertain) }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self { value: self.value - other.value, uncertain: self.uncertain.hypot(other.uncertain) }
    }

    /// The same, more uncertain by a part of itself.
    pub(super) fn blurred(self, part: f64) -> Self {
        Self { uncertain: self.uncertain.hypot(self.value * part), ..self }
    }

    /// Nothing if that is too uncertain to say.
    pub(super) fn keeps(self, bound: Bound, limit: f64) -> Option<bool> {
        let (least, most) = (self.value - self.uncertain, self.value + self.uncertain);
        let (kept, broken) = match bound {
            Bound::AtMost => (most <= limit && most > 0.0, least > limit),
            Bound::AtLeast => (least >= limit, most < limit),
        };
        if kept {
            Some(true)
        } else if broken {
            Some(false)
        } else {
            None
        }
    }
}
