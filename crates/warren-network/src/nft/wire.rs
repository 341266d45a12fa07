//! The numbers of nf_tables: kinds of messages, attributes and flags, as the kernel's `nf_tables.h`
//! has them.

/// The header before the attributes of every message: family, version, resource.
pub(super) const HEADER: [u8; 4] = [NFPROTO_INET, 0, 0, 0];
const NFPROTO_INET: u8 = 1;
pub(super) const NFPROTO_IPV4: u8 = 2;
pub(super) const NFPROTO_IPV6: u8 = 10;

const SUBSYSTEM: u16 = 10 << 8;
pub(super) const NEWTABLE: u16 = SUBSYSTEM;
pub(super) const GETTABLE: u16 = SUBSYSTEM | 1;
pub(super) const DELTABLE: u16 = SUBSYSTEM | 2;
pub(super) const NEWCHAIN: u16 = SUBSYSTEM | 3;
pub(super) const GETCHAIN: u16 = SUBSYSTEM | 4;
pub(super) const NEWRULE: u16 = SUBSYSTEM | 6;
pub(super) const GETRULE: u16 = SUBSYSTEM | 7;
pub(super) const DELRULE: u16 = SUBSYSTEM | 8;
pub(super) const NEWSET: u16 = SUBSYSTEM | 9;
pub(super) const GETSET: u16 = SUBSYSTEM | 10;
pub(super) const NEWSETELEM: u16 = SUBSYSTEM | 12;
pub(super) const GETSETELEM: u16 = SUBSYSTEM | 13;
pub(super) const DELSETELEM: u16 = SUBSYSTEM | 14;
pub(super) const GETGEN: u16 = SUBSYSTEM | 16;

pub(super) const LIST_ELEM: u16 = 1;
pub(super) const GEN_ID: u16 = 1;

/// Attributes of a table.
pub(super) mod table {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const FLAGS: u16 = 2;
    pub(crate) const USERDATA: u16 = 6;
    /// Only the socket that made it may change it.
    pub(crate) const F_OWNER: u32 = 2;
    /// It stays when that socket is closed.
    pub(crate) const F_PERSIST: u32 = 4;
    /// In the user data: what `nft` shows as the table's comment.
    pub(crate) const COMMENT: u8 = 0;
}

/// Attributes of a chain and of its hook.
pub(super) mod chain {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 3;
    pub(crate) const HOOK: u16 = 4;
    pub(crate) const POLICY: u16 = 5;
    pub(crate) const KIND: u16 = 7;
    pub(crate) const HOOK_NUMBER: u16 = 1;
    pub(crate) const HOOK_PRIORITY: u16 = 2;
}

/// Attributes of a rule and of its expressions.
pub(super) mod rule {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const CHAIN: u16 = 2;
    pub(crate) const EXPRESSIONS: u16 = 4;
    pub(crate) const EXPRESSION_NAME: u16 = 1;
    pub(crate) const EXPRESSION_DATA: u16 = 2;
}

/// Attributes of a set.
pub(super) mod set {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const KEY_TYPE: u16 = 4;
    pub(crate) const KEY_LEN: u16 = 5;
    pub(crate) const DESC: u16 = 9;
    pub(crate) const ID: u16 = 10;
    pub(crate) const TIMEOUT: u16 = 11;
    pub(crate) const EXPRESSION: u16 = 17;
    pub(crate) const DESC_SIZE: u16 = 1;
    pub(crate) const DESC_CONCAT: u16 = 2;
    pub(crate) const FIELD_LEN: u16 = 1;
    pub(crate) const F_INTERVAL: u32 = 0x4;
    pub(crate) const F_TIMEOUT: u32 = 0x10;
    pub(crate) const F_EVAL: u32 = 0x20;
    pub(crate) const F_CONCAT: u32 = 0x80;
}

/// Attributes of a set's elements.
pub(super) mod element {
    pub(crate) const LIST_TABLE: u16 = 1;
    pub(crate) const LIST_SET: u16 = 2;
    pub(crate) const LIST_ELEMENTS: u16 = 3;
    pub(crate) const KEY: u16 = 1;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const EXPRESSION: u16 = 7;
    pub(crate) const KEY_END: u16 = 10;
    /// It ends a range instead of beginning one.
    pub(crate) const F_INTERVAL_END: u32 = 1;
}

/// Values and verdicts.
pub(super) mod data {
    pub(crate) const VALUE: u16 = 1;
    pub(crate) const VERDICT: u16 = 2;
    pub(crate) const VERDICT_CODE: u16 = 1;
    pub(crate) const VERDICT_CHAIN: u16 = 2;
}
