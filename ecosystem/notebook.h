// Notebooks: their code as Python's text, their commands as a script of the shell.
#pragma once

#include <string>

namespace gpuplan {

/// The code cells of a notebook, one below the other; lines of the shell and of magic commands are empty. Throws
/// InputError where it is no notebook.
std::string code_of_notebook(const std::string& text, const std::string& name);

/// Its commands as a script of the shell: lines behind "!", cells of %%bash, and files that %%writefile writes. Throws
/// InputError where it is no notebook.
std::string commands_of_notebook(const std::string& text, const std::string& name);

}  // namespace gpuplan
