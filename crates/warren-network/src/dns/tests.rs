mod answers;
mod fuzz;
mod listening;
mod load;
mod plans;
mod servers;
mod support;
