use warren_core::Scope;
use warren_face::route::Access;

use super::{Row, handlers, tags, upload};

const FILES: &str = "/templates/{template}/files/{hash}";

/// A name in a path is one segment, however many signs of it are percent-encoded.
pub(crate) fn rows() -> Vec<Row> {
    [builds(), templates(), tagging()].into_iter().flatten().collect()
}

fn builds() -> Vec<Row> {
    vec![
        Row::post("/v3/templates", "e2b_request_build", handlers::request_build)
            .does("Say that a template is to be built"),
        Row::post("/v2/templates/{template}/builds/{build}", "e2b_start_build", handlers::start_build)
            .does("Begin to build a template"),
        Row::get(
            "/templates/{template}/builds/{build}/status",
            "e2b_get_build_status",
            handlers::build_status,
        )
        .does("Tell how far a build is"),
        Row::get("/templates/{template}/builds/{build}/logs", "e2b_get_build_logs", handlers::build_logs)
            .does("Tell what a build said"),
        // The address that is told lets one write.
        Row { access: Access::Key(Scope::Use), ..Row::get(FILES, "e2b_ask_upload", upload::ask) }
            .does("Ask where files for a build are to be sent"),
        Row::put(FILES, "e2b_upload", upload::receive)
            .does("Send files for a build to the address that was told")
            .by_token()
            .long(),
    ]
}

fn templates() -> Vec<Row> {
    vec![
        Row::get("/templates/aliases/{alias}", "e2b_get_alias", handlers::alias)
            .does("Find a template by its name"),
        Row::get("/templates", "e2b_list_templates_v1", handlers::list)
            .does("List templates, for early clients"),
        Row::get("/v2/templates", "e2b_list_templates", handlers::list_pages).does("List templates"),
        Row::get("/default-templates", "e2b_list_default_templates", handlers::defaults)
            .does("List the templates that everybody has")
            .of_server(),
        Row::get("/templates/{template}", "e2b_get_template", handlers::get).does("Tell of a template"),
        Row::delete("/templates/{template}", "e2b_delete_template", handlers::delete)
            .does("Remove a template"),
        Row::patch("/templates/{template}", "e2b_update_template_v1", handlers::update)
            .does("Change a template, for early clients"),
        Row::patch("/v2/templates/{template}", "e2b_update_template", handlers::update)
            .does("Change a template"),
    ]
}

fn tagging() -> Vec<Row> {
    vec![
        Row::post("/templates/tags", "e2b_assign_tags", tags::assign).does("Give a build tags"),
        Row::delete("/templates/tags", "e2b_delete_tags", tags::delete).does("Take tags away"),
        Row::get("/templates/{template}/tags", "e2b_list_tags", tags::list).does("List a template's tags"),
        Row::get("/templates/{template}/tags/count", "e2b_count_tags", tags::count)
            .does("Count a template's tags"),
        Row::get("/templates/{template}/tags/exists", "e2b_tag_exists", tags::exists)
            .does("See whether a template has a tag"),
        Row::get("/templates/{template}/tags/groups", "e2b_group_tags", tags::groups)
            .does("List a template's tags by build"),
        Row::get(
            "/templates/{template}/tags/{tag}/assignments",
            "e2b_list_tag_assignments",
            tags::assignments,
        )
        .does("Tell what a tag was given to"),
    ]
}
