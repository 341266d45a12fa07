//! The template store as its callers see it, on real directories and as root.

#[cfg(test)]
mod catalog;
#[cfg(test)]
mod good;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod images;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod support;
#[cfg(test)]
mod templates;
