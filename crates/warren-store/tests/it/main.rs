//! The stores as their callers see them, on real directories and as root.

#[cfg(test)]
mod catalog;
#[cfg(test)]
mod good;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod images;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod pulls;
#[cfg(test)]
mod support;
#[cfg(test)]
mod templates;
