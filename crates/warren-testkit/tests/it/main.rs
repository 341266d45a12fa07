mod census;
