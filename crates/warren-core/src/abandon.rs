//! Long work that can be given up. A walk through a tenant's files may take as long as the tenant
//! likes, and its caller may be gone by then. The thread that does it is told so here, and not by a
//! parameter of each function on the way down.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

thread_local! {
    static ASKED: RefCell<Option<Rc<dyn Fn() -> bool>>> = const { RefCell::new(None) };
}

/// Does work on this thread that is given up as soon as `given_up` says so and the work asks.
pub fn abandonable<R>(given_up: impl Fn() -> bool + 'static, work: impl FnOnce() -> R) -> R {
    let before = ASKED.with(|asked| asked.borrow_mut().replace(Rc::new(given_up)));
    let _restore = Restore(before);
    work()
}

/// True once the work of this thread has been given up. Whatever may take long asks again and
/// again.
pub fn abandoned() -> bool {
    let asked = ASKED.with(|asked| asked.borrow().clone());
    asked.is_some_and(|asked| asked())
}

/// Puts back what held before, also when the work panics.
struct Restore(Option<Rc<dyn Fn() -> bool>>);

impl Drop for Restore {
    fn drop(&mut self) {
        let before = self.0.take();
        ASKED.with(|asked| *asked.borrow_mut() = before);
    }
}

impl fmt::Debug for Restore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restore").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn work_is_given_up_only_while_it_is_done() {
        assert!(!abandoned());
        abandonable(
            || true,
            || {
                assert!(abandoned());
                abandonable(|| false, || assert!(!abandoned()));
                assert!(abandoned());
            },
        );
        assert!(!abandoned());
    }

    #[test]
    fn a_panic_leaves_nothing_behind() {
        let panicked = catch_unwind(AssertUnwindSafe(|| abandonable(|| true, || panic!("as planned"))));
        assert!(panicked.is_err() && !abandoned());
    }
}
