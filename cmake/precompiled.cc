// Empty: the file whose compilation makes a precompiled header (precompiled.cmake).
