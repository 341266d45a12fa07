mod calling;
mod schemas;
mod working;
