mod answers;
mod courses;
mod fuzz;
mod listening;
mod load;
mod servers;
mod support;
