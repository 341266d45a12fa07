/// The door of a data directory has entered the network that a call brought. A call is one byte
/// with the network's descriptor, this answer, and lasts as long as the door is to stay there.
pub const DOOR_OPEN: u8 = 1;
