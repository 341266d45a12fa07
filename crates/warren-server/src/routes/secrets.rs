use warren_wire::api::{PutSecret, Secret, SecretList};

use super::Route;
use crate::handlers::secrets;

pub(super) fn rows() -> Vec<Route> {
    vec![
        Route::get("/v1/secrets", "list_secrets", secrets::list)
            .does("List secrets, never their values")
            .answers::<SecretList>(200, "All of them, by name."),
        Route::get("/v1/secrets/{secret}", "get_secret", secrets::get)
            .does("Look at a secret, never its value")
            .answers::<Secret>(200, "All that is told about it."),
        Route::put("/v1/secrets/{secret}", "put_secret", secrets::put)
            .does(
                "Make or replace a secret, which is put into requests to its hosts from sandboxes whose policy names it",
            )
            .takes::<PutSecret>()
            .answers::<Secret>(200, "It is used from the next request on."),
        Route::delete("/v1/secrets/{secret}", "delete_secret", secrets::delete)
            .does("Delete a secret")
            .answers_nothing(204, "It is put into no further request."),
    ]
}
