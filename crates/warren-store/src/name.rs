pub use warren_core::{TemplateName, TemplateNameError};
