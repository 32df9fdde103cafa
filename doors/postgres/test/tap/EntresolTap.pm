# Gives every cluster of PostgreSQL's test framework a flash cache of its own.
#
# A file of settings that all clusters have in common (TEMP_CONFIG) cannot do that: a standby would name its
# primary's flash. So this wraps the framework's "start". It is loaded with PERL5OPT into the scripts of tests.
package EntresolTap;

use strict;
use warnings FATAL => 'all';

# prove, and programs in Perl that tests call, do not have the framework.
if ($0 =~ m{\bt/\d+\w*\.pl$})
{
	require PostgreSQL::Test::Cluster;
	my $start = \&PostgreSQL::Test::Cluster::start;
	no warnings 'redefine';
	*PostgreSQL::Test::Cluster::start = sub {
		my ($node, @rest) = @_;
		name_flash($node);
		return $start->($node, @rest);
	};
}

# The last lines of the configuration hold.
sub name_flash
{
	my ($node) = @_;
	my $flash = $node->basedir . '/flash';
	my $conf = PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postgresql.conf');

	my @named = $conf =~ /^entresol\.flash\s*=\s*'(.*)'/mg;
	return if @named && $named[-1] eq $flash;
	my @libraries = $conf =~ /^shared_preload_libraries\s*=\s*'?([^'\n]*)'?/mg;
	my @wanted = grep { $_ ne '' && $_ ne 'entresol' } split /\s*,\s*/, ($libraries[-1] // '');
	my $wanted = join ',', @wanted, 'entresol';
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = '$wanted'
entresol.flash = '$flash'
entresol.size = 24MB
entresol.objects = 2048
entresol.drain_at_shutdown = on
});
	return;
}

1;
